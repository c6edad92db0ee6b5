"""Functions of a model that compile themselves on first use, and remember.

What a function computes is its own body: traced once for a model, it becomes a kernel. Everything else that users expect of
it (batches, `out=`, float32, the cache, errors that name the argument) is here, once for all.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from linkwork.constraints import Constraint, total
from linkwork.errors import LinkworkError, ModelError
from linkwork.ir.program import DTYPES, Program
from linkwork.ir.symbol import Symbol
from linkwork.ir.trace import trace
from linkwork.model import Model
from linkwork.model.content import is_own
from linkwork.passes.count import count_operations
from linkwork.runtime.constant import ConstantKernel
from linkwork.runtime.kernel import build_kernel, build_named_kernel

Sizes = Callable[[Model], tuple[int, ...]]
_SIZES: dict[str, Callable[[Model, Mapping[str, Any]], int]] = {  # of a model and a function's options
    "nq": lambda model, _: model.nq,
    "nv": lambda model, _: model.nv,
    "nv_spanning": lambda model, _: model.nv_spanning,
    "bodies": lambda model, _: len(model.bodies),
    "rows": lambda model, options: total(model, options["constraints"]),
}


class ModelFunction:
    """A function of a model, arrays and options. Call it on a model and NumPy arrays; `compile` gives its kernel.

    The body's arguments after the model are arrays, those with default None optional; those by keyword only are options,
    which are fixed when it is compiled.
    """

    __name__: str
    __qualname__: str

    def __init__(
        self,
        body: Callable[..., Any],
        shapes: Mapping[str, str],
        options: Callable[..., dict[str, Any]] | None,
        methods: Mapping[str, Callable[[Model], bool]],
    ) -> None:
        functools.update_wrapper(self, body)
        self.body, self.shapes, self._normal, self.methods = body, shapes, options, methods
        parameters = list(inspect.signature(body).parameters.values())[1:]
        arrays = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        self.required = tuple(p.name for p in arrays if p.default is p.empty)
        self.optional = tuple(p.name for p in arrays if p.default is not p.empty)
        self.options = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
        self._arity = len(self.required)
        if set(shapes) != {p.name for p in arrays}:
            raise LinkworkError(f"{self.__name__}: shapes are given for {sorted(shapes)}, not for its arrays")
        for name, words in shapes.items():
            for word in words.split():
                if word not in _SIZES and not word.isdigit():
                    raise LinkworkError(f"{self.__name__}: the shape of {name} has {word!r}; known are {', '.join(_SIZES)}")

    def __reduce__(self) -> str:
        return self.__qualname__  # pickled by name, as functions are

    def __repr__(self) -> str:
        return f"<linkwork function {self.__name__}{inspect.signature(self.body)}>"

    def __call__(self, model: Model, *args: Any, **named: Any) -> Any:
        if not named and len(args) == self._arity:
            try:
                direct = model.kernels[self]
            except (KeyError, AttributeError, TypeError):
                return self._call(model, args, named)  # the first call, or no model
            try:
                return direct(*args)
            except TypeError:
                if not any(map(_has_symbols, args)):
                    raise
        return self._call(model, args, named)

    def _call(self, model: Model, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        _check_model(self, model)
        how = {word: named.pop(word) for word in ("out", "threads") if word in named}
        dtype = named.pop("dtype", "float64")
        options = {word: named.pop(word) for word in self.options if word in named}
        names = (*self.required, *self.optional)
        if len(args) > len(names):
            raise TypeError(f"{self.__name__} takes a model and {', '.join(names)}, not {len(args)} arrays")
        given = dict(zip(names, args))
        for word, value in named.items():
            if word not in names:
                raise TypeError(f"{self.__name__} has no argument {word!r}")
            if word in given:
                raise TypeError(f"{self.__name__} got {word!r} twice")
            given[word] = value
        missing = [name for name in self.required if name not in given]
        if missing:
            raise TypeError(f"{self.__name__} needs {', '.join(missing)}")
        arrays = {name: given[name] for name in names if given.get(name) is not None or name in self.required}
        if any(map(_has_symbols, arrays.values())):
            return self.body(model, **arrays, **self._one_method(self._chosen(model, options)))  # inside of a trace
        optional = tuple(name for name in self.optional if name in arrays)
        key: Any = (self, dtype, optional, *options.items())
        if any(isinstance(value, Iterator) for value in options.values()):
            key = None  # it says something else every time
        try:
            kernel = model.kernels.get(key)  # asked for in the same words before
        except TypeError:  # an option that cannot be hashed, such as a list of names
            key, kernel = None, None
        if kernel is None:
            kernel = self.kernel(model, dtype=dtype, optional=optional, **options)
            if key is not None:
                model.kernels[key] = kernel
        return kernel(*arrays.values(), **how)

    def kernel(
        self, model: Model, *, dtype: str = "float64", optional: Sequence[str] = (), wait: bool = False, **options: Any
    ) -> Any:
        """The kernel for a model, with these of the optional arrays as inputs, and these options."""
        if dtype not in DTYPES:
            raise LinkworkError(f"dtype must be one of {', '.join(DTYPES)}, not {dtype!r}")
        if isinstance(optional, str):
            optional = (optional,)
        chosen = self._chosen(model, options)
        key: Any = (self, dtype, tuple(optional), tuple(chosen.items()))
        try:
            kernel = model.kernels.get(key)
        except TypeError as error:
            raise LinkworkError(f"{self.__name__}: options must be hashable: {error}") from None
        if kernel is None:
            kernel = model.kernels[key] = self._build(model, dtype, tuple(optional), chosen)
            if dtype == "float64" and not optional and chosen == self._defaults(model):
                model.kernels[self] = kernel.direct
        return kernel.wait() if wait else kernel

    def program(self, model: Model, *, optional: Sequence[str] = (), **options: Any) -> Program:
        """The traced program for a model."""
        return self._program(model, tuple(optional), self._chosen(model, options))

    def _build(self, model: Model, dtype: str, optional: tuple[str, ...], chosen: dict[str, Any]) -> Any:
        if model.nq == 0:
            return ConstantKernel(self._program(model, optional, chosen), dtype)

        def make() -> Program:
            return self._program(model, optional, chosen)

        if not _known_by_content(self.body, model, chosen.get("constraints", ())):
            return build_kernel(make(), dtype)
        identity = repr((self.__module__, self.__qualname__, optional, tuple(chosen.items()), model.digest))
        return build_named_kernel(identity, make, dtype)

    def _program(self, model: Model, optional: tuple[str, ...], chosen: dict[str, Any]) -> Program:
        unknown = [name for name in optional if name not in self.optional]
        if unknown:
            raise LinkworkError(f"{self.__name__} has no optional array {unknown[0]!r}")
        names = [*self.required, *(name for name in self.optional if name in optional)]
        inputs = {name: shape_of(self.shapes[name], model, chosen) for name in names}

        def traced(**settings: Any) -> Program:
            def body(*arrays: Any) -> Any:
                return self.body(model, **dict(zip(names, arrays)), **settings)

            return trace(body, inputs, name=self.__name__.strip("<>"))

        if chosen.get("method") != "auto":
            return traced(**chosen)
        # count every method that may be the cheapest for this model
        worth = [method for method, worth_it in self.methods.items() if worth_it(model)]
        programs = [traced(**{**chosen, "method": method}) for method in worth]
        return programs[0] if len(programs) == 1 else min(programs, key=lambda p: count_operations(p)["total"])

    def _chosen(self, model: Model, options: dict[str, Any]) -> dict[str, Any]:
        """All options in their normal form, by which kernels are remembered."""
        _check_model(self, model)
        unknown = [word for word in options if word not in self.options]
        if unknown:
            raise TypeError(f"{self.__name__} has no option {unknown[0]!r}; it has {', '.join(self.options) or 'none'}")
        chosen = {**self.options, **options}
        empty = [word for word, value in chosen.items() if value is inspect.Parameter.empty]
        if empty:
            raise TypeError(f"{self.__name__} needs {empty[0]}=")
        if "method" in chosen and chosen["method"] not in ("auto", *self.methods):
            raise LinkworkError(
                f"{self.__name__}: method must be one of auto, {', '.join(self.methods)}, not {chosen['method']!r}"
            )
        return chosen if self._normal is None else {**chosen, **self._normal(model, **chosen)}

    def _one_method(self, chosen: dict[str, Any]) -> dict[str, Any]:
        return {**chosen, "method": next(iter(self.methods))} if chosen.get("method") == "auto" else chosen

    def _defaults(self, model: Model) -> dict[str, Any] | None:
        return None if inspect.Parameter.empty in self.options.values() else self._chosen(model, {})


def model_function(
    *,
    options: Callable[..., dict[str, Any]] | None = None,
    methods: Mapping[str, Callable[[Model], bool]] | None = None,
    **shapes: str,
) -> Callable[[Callable[..., Any]], ModelFunction]:
    """Make a function of a model out of what it computes; see `ModelFunction`.

    `shapes` says the shape of each array: "nq", "nv", "bodies 6", "" for a scalar. `options` checks the options and gives
    them in a normal form that can be hashed. `methods` are ways to the same result, each with a test whether it may be the
    cheapest for a model: the one with the fewest operations is taken where the option `method` is "auto".
    """

    def decorate(body: Callable[..., Any]) -> ModelFunction:
        return ModelFunction(body, shapes, options, methods or {})

    return decorate


def as_numbers(value: Any) -> np.ndarray:
    """An option that must be numbers; where it is something else, NaN, which every check of it refuses."""
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        return np.array(np.nan)


def shape_of(text: str, model: Model, options: Mapping[str, Any]) -> tuple[int, ...]:
    """The shape that words such as "nv" or "bodies 6" mean for a model and a function's options."""
    return tuple(_SIZES[word](model, options) if word in _SIZES else int(word) for word in text.split())


def _has_symbols(value: Any) -> bool:
    try:
        array = np.asarray(value)  # no copy of an array of numbers, however large
    except Exception:
        return False  # no array: the kernel says which argument it is
    return array.dtype == object and any(isinstance(x, Symbol) for x in array.ravel())


def _known_by_content(body: Callable[..., Any], model: Model, held: Sequence[Constraint]) -> bool:
    """Whether model and package say all there is to know: not with joints, constraints or functions of somebody else."""
    return is_own(body, model.content, held)


def _check_model(fn: ModelFunction, model: Any) -> None:
    if not isinstance(model, Model):
        raise ModelError(
            f"{fn.__name__}: the first argument must be a model (linkwork.load gives one), not {type(model).__name__}"
        )
