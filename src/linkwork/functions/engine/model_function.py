"""Functions of a model that compile themselves on first use, and remember.

What a function computes is its own body: traced once for a model, it becomes a kernel. Everything else that
users expect of it (batches, `out=`, float32, the cache, errors that name the argument) is here, once for all.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.compiler.ir.program import DTYPES, Program
from linkwork.compiler.ir.trace import trace
from linkwork.compiler.passes.count import count_operations
from linkwork.compiler.runtime.arguments import is_on_gpu
from linkwork.compiler.runtime.build import build_on, check_target
from linkwork.compiler.runtime.constant import ConstantKernel
from linkwork.constraints import Constraint
from linkwork.errors import LinkworkError, ModelError
from linkwork.functions.engine import parameter_names
from linkwork.functions.engine.array_labels import ArrayLabels, array_labels
from linkwork.functions.engine.call_arguments import SIZES, has_symbols, resolve_device, shape_of
from linkwork.functions.engine.closed_states import raise_if_open, with_closed_states_note
from linkwork.functions.engine.derivative_rule import DerivativeRule
from linkwork.lazy import resolve
from linkwork.mechanism.names import printable
from linkwork.model import Model, parameters
from linkwork.model.content import is_builtin
from linkwork.sko import Tree

Sizes = Callable[[Model], tuple[int, ...]]
Check = Callable[[Any, Any, Sequence[Any]], None]  # the model, a result, and the arrays that it was made from
CheckGiven = Callable[[Any, dict[str, Any], Mapping[str, Any], Mapping[str, Any]], None]
# the model, arrays of a call, those options that were given, and parameters


TURNS = 4  # of loops, that count where methods are compared: most end long before their limit


class Inputs(NamedTuple):
    """Which inputs a kernel has besides the required arrays: optional ones, and parameters of the model."""

    optional: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()


class KernelKey(NamedTuple):
    """By what a model's kernels are found: everything that decides them."""

    function: Hashable  # a function, or a derivative of one
    target: str
    dtype: str
    inputs: Inputs
    options: tuple[tuple[str, Any], ...]


class ModelFunction:
    """A function of a model, arrays and options. Call it on a model and NumPy arrays; `compile` gives its
    kernel.

    The body's arguments after the model are arrays, those with default None optional; those by keyword only
    are options, which are fixed when it is compiled. An option that has a shape, as arrays do, may also be an
    array: in a call it is one if it has more dimensions than that, or symbols. `parameters={"mass": ...}`
    makes numbers of the model inputs: see `Model.parameters`. `check=True` raises ClosureError where loops
    are open in a configuration that is given.
    """

    __name__: str
    __qualname__: str

    def __init__(
        self,
        body: Callable[..., Any],
        shapes: Mapping[str, str],
        options: Callable[..., dict[str, Any]] | None,
        methods: Mapping[str, Callable[[Model], bool]],
        custom_trees: bool,
        configurations: tuple[str, ...] = (),
        check: Check | None = None,
        check_given: CheckGiven | None = None,
        warn: Callable[[Any, Mapping[str, Any]], None] | None = None,
        open_states: bool = False,
        rule_in: str | None = None,
        single: Callable[[Any, Mapping[str, Any], dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        functools.update_wrapper(self, body)
        self.closed_states = (
            () if open_states else tuple(name for name, words in shapes.items() if words == "nq")
        )
        self.__doc__ = with_closed_states_note(self.__doc__, self.closed_states)
        self.body = body
        self.shapes = shapes
        self._normal = options
        self.methods = methods
        self.custom_trees = custom_trees
        self.configurations = configurations
        self._check = check
        self._check_given = check_given
        self._warn = warn
        self._rule: DerivativeRule | None = None
        self._rule_in = rule_in
        self._single = single
        arguments = list(inspect.signature(body).parameters.values())[1:]
        arrays = [p for p in arguments if p.kind is p.POSITIONAL_OR_KEYWORD]
        self.required = tuple(p.name for p in arrays if p.default is p.empty)
        self.options = {p.name: p.default for p in arguments if p.kind is p.KEYWORD_ONLY}
        self.array_options = {
            name: len(shapes[name].split()) for name in self.options if name in shapes
        }  # with their dimensions
        self._positional = tuple(p.name for p in arrays)
        self.optional = (*(p.name for p in arrays if p.default is not p.empty), *self.array_options)
        self._arity = len(self.required)
        if set(shapes) != {*self._positional, *self.array_options}:
            raise LinkworkError(f"{self.__name__}: shapes are given for {sorted(shapes)}, not for its arrays")
        for name, words in shapes.items():
            for word in words.split():
                if word not in SIZES and not word.isdigit():
                    raise LinkworkError(
                        f"{self.__name__}: the shape of {name} has {word!r}; known are {', '.join(SIZES)}"
                    )

    def derivative(
        self,
        *names: str,
        when: Callable[..., bool] | None = None,
        pullback: Callable[..., Any] | None = None,
        pushforward: Callable[..., Any] | None = None,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorates a function that gives this one's Jacobians by the named arrays, on the tangent space.

        It takes what the body takes and returns the Jacobians in the order of the names, each a tuple over
        the outputs where there are several. `lw.jacobian` then uses it, and `lw.vjp` does where reverse mode
        cannot go. `when`, of the model and the options, says where the rule holds. Where it has an argument
        `wanted`, it is told the names that are asked for, and may give anything for others. `pullback` may
        give Jᵀ bar without J: it takes weights of the outputs, a tuple, and the arrays and parameters that
        are asked for, by name, then what the body takes; it returns the outputs, or None where the body is to
        give them, and one array for each name. `pushforward` gives J d for `lw.jvp` in the same way, from
        directions: the outputs, and the change of each.
        """
        unknown = [name for name in names if name not in self.shapes]
        if unknown or not names:
            raise LinkworkError(
                f"{self.__name__} has no array {unknown[0]!r}" if unknown else "name the arrays of the rule"
            )

        def decorate(jacobians: Callable[..., Any]) -> Callable[..., Any]:
            self._rule = DerivativeRule(names, jacobians, when, pullback, pushforward)
            return jacobians

        return decorate

    @property
    def rule(self) -> DerivativeRule | None:
        """The function's own derivative rule; its module is imported on first use."""
        if self._rule is None and self._rule_in is not None:
            resolve(self._rule_in)
        return self._rule

    def __reduce__(self) -> str:
        return self.__qualname__  # pickled by name, as functions are

    def __repr__(self) -> str:
        return f"<linkwork function {self.__name__}{inspect.signature(self.body)}>"

    def __call__(self, model: Model, *args: Any, **named: Any) -> Any:
        if not named and len(args) == self._arity:
            try:
                direct = model.cache[self]
            except (KeyError, AttributeError, TypeError):
                return self._call(model, args, named)  # the first call, or no model
            try:
                return direct(*args)
            except TypeError:
                if not any(map(has_symbols, args)) and not any(map(is_on_gpu, args)):
                    raise
        return self._call(model, args, named)

    def _call(self, model: Model, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        _check_model(self, model)
        check_states = named.pop("check", False)
        values = named.pop("parameters", None) or {}
        numbers_given = values.values() if isinstance(values, Mapping) else ()
        device, dtype = resolve_device(self.__name__, named, (*args, *named.values(), *numbers_given))
        how = {word: named.pop(word) for word in ("out", "threads") if word in named}
        options = {
            word: named.pop(word)
            for word in self.options
            if word in named and not self._is_array(word, named[word])
        }
        arrays = self._arrays(args, named)
        if not isinstance(values, Mapping):
            raise ModelError(
                f"{self.__name__}: parameters: expected a mapping such as {{'mass': ...}}, got {type(values).__name__}"
            )
        if own := [name for name in values if name in self.optional and name.startswith("contact_")]:
            arrays |= {name: values[name] for name in own}
            arrays = {name: arrays[name] for name in (*self.required, *self.optional) if name in arrays}
            values = {name: x for name, x in values.items() if name not in own}
        inputs = Inputs(tuple(name for name in self.optional if name in arrays), _ordered(model, values))
        numbers = [values[name] for name in inputs.parameters]
        if check_states is not False:
            states = {name: arrays[name] for name in self.closed_states if name in arrays}
            raise_if_open(self.__name__, model, check_states, states, values, device)
        if any(map(has_symbols, (*arrays.values(), *numbers))):  # inside of a trace
            settings = self._one_method(model, inputs.optional, self.normalize_options(model, options))
            return self.body(model.traced_with(values) if values else model, **{**settings, **arrays})
        if self._check_given is not None and device == "cpu":
            self._check_given(model, arrays, options, values)
        asked: Any = (self, device, dtype, inputs, *options.items())
        if any(isinstance(value, Iterator) for value in options.values()):
            asked = None  # it says something else every time
        try:
            kernel = model.cache.get(asked)  # asked for in the same words before
        except TypeError:  # an option that cannot be hashed, such as a list of names
            asked = None
            kernel = None
        if kernel is None:
            kernel = self.kernel(model, target=device, dtype=dtype, **inputs._asdict(), **options)
            if asked is not None:
                model.cache[asked] = kernel
        check = self._check_of(model) if device == "cpu" else None  # on a GPU nobody waits for results
        given = (*arrays.values(), *numbers)
        before = (
            tuple(map(_copied, given)) if check and how.get("out") is not None else given
        )  # out may be one of them
        result = kernel(*given, **how)
        if check:
            check(model, result, before)
        return result

    def _is_array(self, word: str, value: Any) -> bool:
        """Whether an option is given as an array of numbers for each state."""
        if word not in self.array_options:
            return False
        return (
            is_on_gpu(value)
            or has_symbols(value)
            or (hasattr(value, "ndim") and value.ndim > self.array_options[word])
        )

    def _check_of(self, model: Model) -> Check | None:
        """What looks at results: only where there are loops."""
        return self._check if isinstance(model, Model) and model.loops else None

    def _direct(self, model: Model, kernel: Any) -> Any:
        """The quickest call of a kernel, with a look at its results where there is one."""
        check = self._check_of(model)
        if check is None:
            return kernel.direct

        def checked(*arrays: Any) -> Any:
            result = kernel.direct(*arrays)
            check(model, result, arrays)
            return result

        return checked

    def _arrays(self, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        """The arrays of a call by name, those that may be left out only where they are given."""
        names = (*self.required, *self.optional)
        if len(args) > len(self._positional):
            raise TypeError(
                f"{self.__name__}: expected a model and {', '.join(self._positional)}, got {len(args)} arrays"
            )
        given = dict(zip(self._positional, args))
        for word, value in named.items():
            if word not in names:
                raise TypeError(f"{self.__name__} has no argument {word!r}")
            if word in given:
                raise TypeError(f"{self.__name__} got {word!r} twice")
            given[word] = value
        missing = [name for name in self.required if name not in given]
        if missing:
            raise TypeError(f"{self.__name__} needs {', '.join(missing)}")
        return {name: given[name] for name in names if given.get(name) is not None or name in self.required}

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
        """The kernel for a model, with these of the optional arrays and of the model's parameters as inputs,
        and options.
        """
        check_target(target)
        if dtype not in DTYPES:
            raise LinkworkError(f"dtype: expected one of {', '.join(DTYPES)}, got {dtype!r}")
        chosen = self.normalize_options(model, options)
        inputs = self.inputs(model, optional, parameters)
        if dtype == "float32" and self._single is not None:
            chosen = self._single(model, options, chosen)
        key = KernelKey(self, target, dtype, inputs, tuple(chosen.items()))
        try:
            kernel = model.kernels.get(key)
        except TypeError as error:
            raise LinkworkError(f"{self.__name__}: options: expected hashable values: {error}") from None
        if kernel is None:
            if self._warn is not None:
                self._warn(model, chosen)
            kernel = model.kernels[key] = self._build(model, target, dtype, inputs, chosen)
            words = self._words(model, inputs, chosen)
            named = array_labels(
                self.__name__, self.shapes, kernel.inputs, kernel.outputs, model, chosen, words
            )
            kernel.array_labels = (
                named if kernel.array_labels in (None, named) else {}
            )  # models with one program share it
            if (
                target == "cpu"
                and dtype == "float64"
                and inputs == Inputs()
                and chosen == self._defaults(model)
            ):
                model.cache[self] = self._direct(model, kernel)
        return kernel.wait() if wait else kernel

    def program(
        self, model: Model, *, optional: Sequence[str] = (), parameters: Iterable[str] = (), **options: Any
    ) -> Program:
        """The traced program for a model."""
        return self._program(
            model, self.inputs(model, optional, parameters), self.normalize_options(model, options)
        )

    def array_labels(
        self, model: Model, program: Program, options: dict[str, Any], names: Iterable[str] = ()
    ) -> dict[str, ArrayLabels]:
        """What the entries of a program of this function are, by the names of its arrays; `names` are those
        of parameters.
        """
        chosen = self.normalize_options(model, options)
        own = [array.name for array in program.inputs if array.name in self.shapes]
        words = self._words(
            model, self.inputs(model, [name for name in own if name in self.optional], names), chosen
        )
        return array_labels(self.__name__, self.shapes, program.inputs, program.outputs, model, chosen, words)

    def _words(self, model: Model, inputs: Inputs, chosen: Mapping[str, Any]) -> dict[str, str]:
        """Arrays and parameters by what they are called in the program."""
        return dict(
            zip(
                self.input_shapes(model, inputs, chosen),
                (*self.required, *inputs.optional, *inputs.parameters),
            )
        )

    def inputs(self, model: Model, optional: Sequence[str], names: Iterable[str]) -> Inputs:
        """These optional arrays and parameters as inputs, each checked."""
        _check_model(self, model)
        given = (optional,) if isinstance(optional, str) else tuple(optional)
        unknown = [name for name in given if name not in self.optional]
        if unknown:
            raise LinkworkError(f"{self.__name__} has no optional array {unknown[0]!r}")
        chosen = parameter_names.known(model, names) if names else ()
        return Inputs(tuple(name for name in self.optional if name in given), chosen)

    def _build(self, model: Model, target: str, dtype: str, inputs: Inputs, chosen: dict[str, Any]) -> Any:
        if model.nq == 0 and not inputs.parameters:
            return ConstantKernel(self._program(model, inputs, chosen), dtype)

        def make() -> Program:
            return self._program(model, inputs, chosen)

        return build_on(target, self.identity(model, inputs, chosen), make, dtype)

    def identity(self, model: Model, inputs: Inputs, chosen: Mapping[str, Any], *code: Any) -> str | None:
        """What decides the program, given this package's source; None where joints, functions or code of
        others have a say.
        """
        own = (self.body, *code) if code else self.body
        if isinstance(model, Tree) or not _is_defined_by_content(own, model, chosen.get("constraints", ())):
            return None
        return repr((self.__module__, self.__qualname__, tuple(inputs), tuple(chosen.items()), model.digest))

    def _program(self, model: Model, inputs: Inputs, chosen: dict[str, Any]) -> Program:
        if chosen.get("method") != "auto":
            return self._traced(model, inputs, chosen)
        # count every method that may be the cheapest for this model
        worth = [method for method, worth_it in self.methods.items() if worth_it(model)]
        programs = [self._traced(model, inputs, {**chosen, "method": method}) for method in worth]
        return (
            programs[0]
            if len(programs) == 1
            else min(programs, key=lambda p: count_operations(p, TURNS)["total"])
        )

    def input_shapes(
        self, model: Model, inputs: Inputs, settings: Mapping[str, Any]
    ) -> dict[str, tuple[int, ...]]:
        """The shapes of a program's inputs by name: arrays first, then parameters."""
        names = (*self.required, *inputs.optional)
        shapes = {name: shape_of(self.shapes[name], model, settings) for name in names}
        for name, word in zip(inputs.parameters, parameters.input_names(inputs.parameters, taken=names)):
            shapes[word] = parameter_names.shape_of(model, name)
        return shapes

    def _traced(self, model: Model, inputs: Inputs, settings: dict[str, Any]) -> Program:
        names = (*self.required, *inputs.optional)
        shapes = self.input_shapes(model, inputs, settings)

        def body(*arrays: Any) -> Any:
            values = dict(zip(inputs.parameters, arrays[len(names) :]))
            return self.body(
                model.traced_with(values) if values else model, **{**settings, **dict(zip(names, arrays))}
            )

        return trace(body, shapes, name=self.__name__.strip("<>"))

    def normalize_options(self, model: Model, options: dict[str, Any]) -> dict[str, Any]:
        """All options in their normal form, by which kernels are remembered."""
        _check_model(self, model)
        unknown = [word for word in options if word not in self.options]
        if unknown:
            raise TypeError(
                f"{self.__name__} has no option {unknown[0]!r}; it has {', '.join(self.options) or 'none'}"
            )
        chosen = {**self.options, **options}
        empty = [word for word, value in chosen.items() if value is inspect.Parameter.empty]
        if empty:
            raise TypeError(f"{self.__name__} needs {empty[0]}=")
        for word, default in self.options.items():
            if isinstance(default, bool) and not isinstance(
                chosen[word], (bool, np.bool_)
            ):  # "no" would count as yes
                raise ModelError(f"{self.__name__}: {word}: expected True or False, got {chosen[word]!r}")
        if "method" in chosen and chosen["method"] not in ("auto", *self.methods):
            raise LinkworkError(
                f"{self.__name__}: method: expected one of auto, {', '.join(self.methods)}, got "
                f"{chosen['method']!r}"
            )
        return chosen if self._normal is None else {**chosen, **self._normal(model, **chosen)}

    def _one_method(self, model: Model, optional: tuple[str, ...], chosen: dict[str, Any]) -> dict[str, Any]:
        """The same options with a method, the one that is taken outside of traces too: the cheapest for this
        model.
        """
        if chosen.get("method") != "auto":
            return chosen
        own = model.nominal
        asked: Any = (self, "method", optional, tuple(chosen.items()))
        if asked not in own.cache:
            worth = [method for method, worth_it in self.methods.items() if worth_it(own)]
            totals: dict[str, int] = {}
            for method in worth if len(worth) > 1 else ():
                program = self._traced(own, Inputs(optional), {**chosen, "method": method})
                totals[method] = count_operations(program, TURNS)["total"]
            own.cache[asked] = min(totals, key=totals.__getitem__) if totals else worth[0]
        return {**chosen, "method": own.cache[asked]}

    def _defaults(self, model: Model) -> dict[str, Any] | None:
        """The options where none are given; None where some must be, for any model or for this one."""
        if inspect.Parameter.empty in self.options.values():
            return None
        try:
            return self.normalize_options(model, {})
        except LinkworkError:  # such as contacts of a model without shapes
            return None


def model_function(
    *,
    options: Callable[..., dict[str, Any]] | None = None,
    methods: Mapping[str, Callable[[Model], bool]] | None = None,
    custom_trees: bool = False,
    configurations: tuple[str, ...] = (),
    check: Check | None = None,
    check_given: CheckGiven | None = None,
    warn: Callable[[Any, Mapping[str, Any]], None] | None = None,
    open_states: bool = False,
    rule_in: str | None = None,
    single: Callable[[Any, Mapping[str, Any], dict[str, Any]], dict[str, Any]] | None = None,
    **shapes: str,
) -> Callable[[Callable[..., Any]], ModelFunction]:
    """Make a function of a model out of what it computes; see `ModelFunction`.

    `shapes` says the shape of each array: "nq", "nv", "bodies 6", "" for a scalar. `options` checks the
    options and gives them in a normal form that can be hashed. `methods` are ways to the same result, each
    with a test whether it may be the cheapest for a model: the one with the fewest operations is taken where
    the option `method` is "auto". `custom_trees`: it also takes custom trees (`linkwork.sko.Tree`),
    which have nodes and no bodies. `configurations` names the outputs that are configurations as q is ("out",
    or "out0" of several): their derivatives are on the tangent space. `check`, called with the model, the
    result and the arrays, raises an error where loops could not be closed; compiled functions have no such
    look back. `check_given`, called with the model, the arrays of a call, the options that it names and the
    parameters, raises one where numbers make no sense, or puts NaN into rows of them; it is left out where
    all options have their defaults, on GPUs and in traces. `warn`, called with the model and all options
    before a kernel is made, may warn of what does not act. `open_states`: loops need not be closed in
    configurations that it takes. `rule_in` names the module that defines its derivative rule, which is
    imported when a derivative is first asked for. `single`, called with the model, the options that were
    given and all of them, gives the options of kernels in single precision.
    """

    def decorate(body: Callable[..., Any]) -> ModelFunction:
        checks = check, check_given, warn, open_states
        return ModelFunction(
            body, shapes, options, methods or {}, custom_trees, configurations, *checks, rule_in, single
        )

    return decorate


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def _is_defined_by_content(body: Any, model: Model, held: Sequence[Constraint]) -> bool:
    """Whether model and package say all there is to know: not with joints, constraints or functions of
    somebody else.
    """
    return is_builtin(body, model.content, held)


def _ordered(model: Model, values: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of parameters in a fixed order; checked once for each model and choice of them."""
    if not values:
        return ()
    asked = ("parameters", *values)
    if asked not in model.cache:
        model.cache[asked] = parameter_names.ordered(model, values)
    return model.cache[asked]


def _check_model(fn: ModelFunction, model: Any) -> None:
    if isinstance(model, Tree) and not fn.custom_trees:
        raise ModelError(
            f"{fn.__name__} asks for bodies, which the SKO model {printable(model.name)} does not have: it "
            "has nodes"
        )
    if not isinstance(model, (Model, Tree)):
        raise ModelError(
            f"{fn.__name__}: first argument: expected a model (linkwork.load gives one), got "
            f"{type(model).__name__}"
        )
