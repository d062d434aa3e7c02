"""PySpark jobs. Only this package loads PySpark; it is run in processes of its own."""
