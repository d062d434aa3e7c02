"""Operators submitted by value: cloudpickle, accepted only with the cluster key's signature.

Unpickling runs code, so nothing is unpickled before the signature over all of it was checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import cloudpickle

from streammine.model.errors import UserCodeError

Sign = Callable[[bytes], bytes]
Verify = Callable[[bytes, bytes], bool]


def pickled(code: Mapping[str, object]) -> dict[str, bytes]:
    """Each operator's cloudpickle. Raises UserCodeError naming one that can't be pickled."""
    blobs = {}
    for name, value in sorted(code.items()):
        try:
            blobs[name] = cloudpickle.dumps(value)
        except Exception as error:
            raise UserCodeError(
                f"operator {name!r} can't be sent to the nodes: {error}; define it in a module and "
                "name it by its path, or keep open files and locks out of it"
            ) from error
    return blobs


def signed_message(code: Mapping[str, bytes]) -> bytes:
    """What is signed: every name and blob, with their lengths, in the order of the names."""
    parts = []
    for name, blob in sorted(code.items()):
        encoded = name.encode()
        parts += [
            len(encoded).to_bytes(8, "big"),
            encoded,
            len(blob).to_bytes(8, "big"),
            blob,
        ]
    return b"".join(parts)


def value_loader(
    code: Mapping[str, bytes], signature: bytes, verify: Verify | None
) -> Callable[[str], object]:
    """Loads an operator by its name, after checking the signature over all of them."""

    def load(name: str) -> object:
        if name not in code:
            raise UserCodeError(f"operator {name!r} was to come by value, but no code came with it")
        if verify is None or not verify(signed_message(code), signature):
            raise UserCodeError(
                f"the code of operator {name!r} is not signed with this cluster's key; submit it "
                "from a client that has the cluster's key file"
            )
        return cloudpickle.loads(code[name])

    return load
