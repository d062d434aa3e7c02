"""Two machine instructions that numba does not offer: an unaligned load and a wide multiply."""

from typing import Any, cast

from numba import types
from numba.core import cgutils as untyped_cgutils
from numba.extending import intrinsic

cgutils: Any = untyped_cgutils


def _load_word(typing_context: Any, data: Any, index: Any) -> Any:
    """The eight bytes data[index : index + 8] as a little-endian uint64; no bounds check."""
    signature = types.uint64(data, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array_type = signature.args[0]
        array = context.make_array(array_type)(context, builder, arguments[0])
        address = cgutils.pointer_add(builder, array.data, arguments[1])
        word_type = context.get_value_type(types.uint64)
        return builder.load(builder.bitcast(address, word_type.as_pointer()), align=1)

    return signature, generate


def _store_word(typing_context: Any, data: Any, index: Any, word: Any) -> Any:
    """Write a uint64 to data[index : index + 8], little-endian; no bounds check."""
    signature = types.void(data, types.int64, types.uint64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array_type = signature.args[0]
        array = context.make_array(array_type)(context, builder, arguments[0])
        address = cgutils.pointer_add(builder, array.data, arguments[1])
        word_type = context.get_value_type(types.uint64)
        builder.store(arguments[2], builder.bitcast(address, word_type.as_pointer()), align=1)
        return context.get_dummy_value()

    return signature, generate


def _fold_product(typing_context: Any, left: Any, right: Any) -> Any:
    """The two halves of the 128-bit product of two uint64, combined by exclusive or."""
    signature = types.uint64(types.uint64, types.uint64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = cgutils.ir.IntType(128)
        narrow = cgutils.ir.IntType(64)
        product = builder.mul(builder.zext(arguments[0], wide), builder.zext(arguments[1], wide))
        high = builder.trunc(builder.lshr(product, cgutils.ir.Constant(wide, 64)), narrow)
        return builder.xor(high, builder.trunc(product, narrow))

    return signature, generate


def _high_product(typing_context: Any, left: Any, right: Any) -> Any:
    """The upper half of the 128-bit product of two uint64."""
    signature = types.uint64(types.uint64, types.uint64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = cgutils.ir.IntType(128)
        narrow = cgutils.ir.IntType(64)
        product = builder.mul(builder.zext(arguments[0], wide), builder.zext(arguments[1], wide))
        return builder.trunc(builder.lshr(product, cgutils.ir.Constant(wide, 64)), narrow)

    return signature, generate


def _trailing_zeros(typing_context: Any, word: Any) -> Any:
    """The number of zero bits below the lowest set bit of a uint64; 64 for zero."""
    signature = types.int64(types.uint64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], cgutils.false_bit)

    return signature, generate


load_word = cast(Any, intrinsic(_load_word))
store_word = cast(Any, intrinsic(_store_word))
fold_product = cast(Any, intrinsic(_fold_product))
high_product = cast(Any, intrinsic(_high_product))
trailing_zeros = cast(Any, intrinsic(_trailing_zeros))
