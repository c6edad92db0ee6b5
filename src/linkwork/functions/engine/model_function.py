"""Functions of a model that are compiled on first use and cached.

The body of a function computes the result: traced once for a model, it becomes a kernel. Everything common to
functions (batches, `out=`, float32, the cache, errors that name the argument) is here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.compiler.ir.program import Program
from linkwork.compiler.runtime.arguments import is_on_gpu
from linkwork.compiler.runtime.build import build_on, check_dtype, check_target, check_wait
from linkwork.compiler.runtime.constant import ConstantKernel
from linkwork.compiler.runtime.signals import reraise_signal
from linkwork.errors import LinkworkError, ModelError
from linkwork.functions.engine import parameter_names
from linkwork.functions.engine.call_arguments import has_symbols, resolve_device
from linkwork.functions.engine.closed_states import raise_if_open, with_closed_states_note
from linkwork.functions.engine.spring_potential import raise_if_no_potential
from linkwork.functions.engine.traced_function import (
    Inputs,
    Methods,
    OptionCheck,
    TracedFunction,
    check_model,
)
from linkwork.model import Model

ResultCheck = Callable[[Any, Any, Sequence[Any]], None]
"""Checks a result: takes the model, the result and the arrays of the call."""
ArgumentCheck = Callable[[Any, dict[str, Any], Mapping[str, Any], Mapping[str, Any]], None]
"""Checks a call: takes the model, the arrays, the options passed in the call, and parameters."""
Warn = Callable[[Any, Mapping[str, Any]], None]
"""Warns before a kernel is built: takes the model and all options."""
SinglePrecision = Callable[[Any, Mapping[str, Any], dict[str, Any]], dict[str, Any]]
"""Returns the options of kernels in single precision: takes the model, the options of the call, and all."""


class KernelKey(NamedTuple):
    """Key of a kernel in `model.kernels`: everything besides the model that determines it.

    The key of the file on disk is `named_key` (`compiler/runtime/compiler.py`).
    """

    function: Hashable  # a function, or a derivative of one
    target: str
    dtype: str
    inputs: Inputs
    options: tuple[tuple[str, Any], ...]


class Checks(NamedTuple):
    """Checks of the calls of a function; see `model_function`."""

    result: ResultCheck | None = None
    arguments: ArgumentCheck | None = None
    warn: Warn | None = None
    open_states: bool = False


class ModelFunction(TracedFunction):
    """A function of a model, arrays and options, compiled on first use.

    Call it with a model and NumPy arrays; `compile` returns its kernel. Arguments of the body after the model
    are arrays, optional if their default is None; keyword-only arguments are options, which are constants of
    the kernel. An option that has a shape, as arrays do, may also be an array: it is one if it has more
    dimensions than its shape, or symbols. `parameters={"mass": ...}` makes parameters of the model inputs:
    see `Model.parameters`. With `check=True`, configurations with open loops raise ClosureError.
    """

    def __init__(
        self,
        body: Callable[..., Any],
        shapes: Mapping[str, str],
        *,
        options: OptionCheck | None,
        methods: Methods,
        custom_trees: bool,
        configurations: tuple[str, ...],
        checks: Checks,
        rule_in: str | None,
        single: SinglePrecision | None,
    ) -> None:
        functools.update_wrapper(self, body)  # errors of the base class name the function
        super().__init__(body, shapes, options, methods, custom_trees, rule_in)
        states = tuple(name for name, words in shapes.items() if words == "nq")
        self.closed_states = () if checks.open_states else states
        self.__doc__ = with_closed_states_note(self.__doc__, self.closed_states)
        self.configurations = configurations
        self._checks = checks
        self._single = single
        self._arity = len(self.required)

    @property
    def check_arguments(self) -> ArgumentCheck | None:
        """Check of the arrays of a call, or None."""
        return self._checks.arguments

    def __reduce__(self) -> str:
        return self.__qualname__  # pickled by name, as functions are

    def __repr__(self) -> str:
        return f"<linkwork function {self.__name__}{inspect.signature(self.body)}>"

    def __call__(self, model: Model, *args: Any, **named: Any) -> Any:
        if not named and len(args) == self._arity:
            try:
                direct = model.cache[self]
            except (KeyError, AttributeError, TypeError) as error:
                reraise_signal(error)
                return self._call(model, args, named)  # the first call, or not a model
            try:
                return direct(*args)
            except TypeError as error:
                reraise_signal(error)
                if not any(map(has_symbols, args)) and not any(map(is_on_gpu, args)):
                    raise
        return self._call(model, args, named)

    def _call(self, model: Model, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        check_model(self, model)
        check_states = named.pop("check", False)
        values = named.pop("parameters", None)
        values = {} if values is None else values
        parameter_values = values.values() if isinstance(values, Mapping) else ()
        device, dtype = resolve_device(self.__name__, named, (*args, *named.values(), *parameter_values))
        kernel_options = {name: named.pop(name) for name in ("out", "threads") if name in named}
        options = {
            name: named.pop(name)
            for name in self.options
            if name in named and not self.is_array(name, named[name])
        }
        arrays, values = self._with_contact_arrays(self.arrays(args, named), values)
        inputs = Inputs(tuple(name for name in self.optional if name in arrays), _ordered(model, values))
        numbers = [values[name] for name in inputs.parameters]
        if numbers:
            raise_if_no_potential(self.__name__, model, values)
        if check_states is not False:
            states = {name: arrays[name] for name in self.closed_states if name in arrays}
            raise_if_open(self.__name__, model, check_states, states, values, device)
        if any(map(has_symbols, (*arrays.values(), *numbers))):  # within a trace
            settings = self.with_method(model, inputs.optional, self.normalize_options(model, options))
            return self.body(model.traced_with(values) if values else model, **{**settings, **arrays})
        if self._checks.arguments is not None and device == "cpu":
            self._checks.arguments(model, arrays, options, values)
        kernel = self._cached_kernel(model, device, dtype, inputs, options)
        # calls on a GPU do not wait for results
        check = self._result_check(model) if device == "cpu" else None
        call_args = (*arrays.values(), *numbers)
        checked_args = call_args
        if check and kernel_options.get("out") is not None:  # `out` may overwrite an argument
            checked_args = tuple(map(_copied, call_args))
        result = kernel(*call_args, **kernel_options)
        if check:
            check(model, result, checked_args)
        return result

    def _with_contact_arrays(
        self, arrays: dict[str, Any], values: Any
    ) -> tuple[dict[str, Any], Mapping[str, Any]]:
        """Return arrays and parameters of a call, with coefficients of contacts among the arrays."""
        if not isinstance(values, Mapping):
            raise ModelError(
                f"{self.__name__}: parameters: expected a mapping such as {{'mass': ...}}, got "
                f"{type(values).__name__}"
            )
        contact_names = [name for name in values if name in self.optional and name.startswith("contact_")]
        if not contact_names:
            return arrays, values
        arrays |= {name: values[name] for name in contact_names}
        return (
            {name: arrays[name] for name in (*self.required, *self.optional) if name in arrays},
            {name: x for name, x in values.items() if name not in contact_names},
        )

    def _cached_kernel(
        self, model: Model, device: str, dtype: str, inputs: Inputs, options: dict[str, Any]
    ) -> Any:
        """Return the kernel of a call.

        `model.cache` has kernels by the options as passed, so that they are normalized once, and
        `model.kernels` by the normalized options.
        """
        key: Any = (self, device, dtype, inputs, *options.items())
        if any(isinstance(value, Iterator) for value in options.values()):
            key = None  # an iterator is empty the next time
        try:
            kernel = model.cache.get(key)
        except TypeError as error:  # an option that cannot be hashed, such as a list of names
            reraise_signal(error)
            key = None
            kernel = None
        if kernel is None:
            kernel = self.kernel(model, target=device, dtype=dtype, **inputs._asdict(), **options)
            if key is not None:
                model.cache[key] = kernel
        return kernel

    def _result_check(self, model: Model) -> ResultCheck | None:
        """Return the check of results, which only models with loops need."""
        return self._checks.result if isinstance(model, Model) and model.loops else None

    def _direct(self, model: Model, kernel: Any) -> Any:
        """Return the fastest call of a kernel, with the check of its results if there is one."""
        check = self._result_check(model)
        if check is None:
            return kernel.direct

        def checked(*arrays: Any) -> Any:
            result = kernel.direct(*arrays)
            check(model, result, arrays)
            return result

        return checked

    def kernel(
        self,
        model: Model,
        *,
        target: str = "cpu",
        dtype: str = "float64",
        optional: Sequence[str] = (),
        parameters: Iterable[str] = (),
        wait: bool = False,
        **options: Any,
    ) -> Any:
        """Return the kernel for a model, with optional arrays and parameters of the model as inputs.

        Parameters
        ----------
        model : Model
            The model.
        target : str
            "cpu" or "cuda".
        dtype : str
            "float64" or "float32".
        optional : sequence of str
            Names of optional arrays that are inputs.
        parameters : iterable of str
            Names of parameters of the model that are inputs.
        wait : bool
            Wait for optimized code.
        **options
            Options of the function.
        """
        check_target(target)
        check_dtype(dtype)
        check_wait(wait)
        settings = self.normalize_options(model, options)
        inputs = self.inputs(model, optional, parameters)
        if dtype == "float32" and self._single is not None:
            settings = self._single(model, options, settings)
        key = KernelKey(self, target, dtype, inputs, tuple(settings.items()))
        try:
            kernel = model.kernels.get(key)
        except TypeError as error:
            reraise_signal(error)
            raise LinkworkError(f"{self.__name__}: options: expected hashable values: {error}") from None
        if kernel is None:
            if self._checks.warn is not None:
                self._checks.warn(model, settings)
            kernel = model.kernels[key] = self._build(model, target, dtype, inputs, settings)
            labels = self.labels_of(model, kernel, inputs, settings)
            if kernel.array_labels is not None and kernel.array_labels != labels:
                labels = {}  # models with the same program share the kernel
            kernel.array_labels = labels
            is_default = target == "cpu" and dtype == "float64" and inputs == Inputs()
            if is_default and settings == self._defaults(model):
                model.cache[self] = self._direct(model, kernel)
        return kernel.wait() if wait else kernel

    def _build(self, model: Model, target: str, dtype: str, inputs: Inputs, settings: dict[str, Any]) -> Any:
        if model.nq == 0 and not inputs.parameters:
            return ConstantKernel(self.program_of(model, inputs, settings), dtype)

        def make() -> Program:
            return self.program_of(model, inputs, settings)

        return build_on(target, self.identity(model, inputs, settings), make, dtype)

    def _defaults(self, model: Model) -> dict[str, Any] | None:
        """Return the options of a call without any; None if some are required, always or for this model."""
        if inspect.Parameter.empty in self.options.values():
            return None
        try:
            return self.normalize_options(model, {})
        except LinkworkError as error:  # such as contacts of a model without shapes
            reraise_signal(error)
            return None


def model_function(
    *,
    options: OptionCheck | None = None,
    methods: Methods | None = None,
    custom_trees: bool = False,
    configurations: tuple[str, ...] = (),
    check: ResultCheck | None = None,
    check_given: ArgumentCheck | None = None,
    warn: Warn | None = None,
    open_states: bool = False,
    rule_in: str | None = None,
    single: SinglePrecision | None = None,
    **shapes: str,
) -> Callable[[Callable[..., Any]], ModelFunction]:
    """Decorate a function that computes results from a model, arrays and options; see `ModelFunction`.

    Parameters
    ----------
    options : callable, optional
        Returns checked options in a hashable normal form, from the model and all options.
    methods : mapping of str to callable, optional
        Values of the option `method`, each with a predicate: True if the method may need the fewest
        operations for a model. With "auto" the one with the fewest is used.
    custom_trees : bool
        Whether the function accepts `linkwork.sko.Tree`, which has nodes and no bodies.
    configurations : tuple of str
        Outputs that are configurations as q is ("out", or "out0" of several); their derivatives are on the
        tangent space.
    check : callable, optional
        Raises, from the model, the result and the arrays, if loops could not be closed. Kernels have no such
        check.
    check_given : callable, optional
        Raises, from the model, the arrays of a call, its options and parameters, if numbers are not valid,
        or sets rows of them to NaN. Not called if all options have their defaults, on GPUs and in traces.
    warn : callable, optional
        Called with the model and all options before a kernel is built, to warn of what has no effect.
    open_states : bool
        Whether configurations may have open loops.
    rule_in : str, optional
        Module that defines the derivative rule, imported when a derivative is first needed.
    single : callable, optional
        Returns the options of kernels in single precision, from the model, the options of a call, and all
        options.
    **shapes : str
        Shape of each array: "nq", "nv", "bodies 6", or "" for a scalar.
    """

    def decorate(body: Callable[..., Any]) -> ModelFunction:
        return ModelFunction(
            body,
            shapes,
            options=options,
            methods=methods or {},
            custom_trees=custom_trees,
            configurations=configurations,
            checks=Checks(check, check_given, warn, open_states),
            rule_in=rule_in,
            single=single,
        )

    return decorate


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def _ordered(model: Model, values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return names of parameters in a fixed order; checked once for each model and set of names."""
    if not values:
        return ()
    key = ("parameters", *values)
    if key not in model.cache:
        model.cache[key] = parameter_names.ordered(model, values)
    return model.cache[key]
