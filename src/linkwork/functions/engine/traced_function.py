"""Functions of a model that are traced: their arrays and options, programs, and derivative rules."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.compiler.ir.program import Program
from linkwork.compiler.ir.trace import trace
from linkwork.compiler.passes.count import count_operations
from linkwork.compiler.runtime.arguments import is_on_gpu
from linkwork.errors import LinkworkError, ModelError
from linkwork.functions.engine import parameter_names
from linkwork.functions.engine.array_labels import ArrayLabels, array_labels
from linkwork.functions.engine.call_arguments import SIZES, has_symbols, shape_of
from linkwork.functions.engine.derivative_rule import DerivativeRule
from linkwork.lazy import resolve
from linkwork.mechanism.names import printable
from linkwork.model import Model, parameters
from linkwork.model.content import is_builtin
from linkwork.sko import Tree

OptionCheck = Callable[..., dict[str, Any]]
Methods = Mapping[str, Callable[[Model], bool]]

LOOP_ITERATIONS = 4  # of a loop, when methods are compared: most loops end long before their limit


class Inputs(NamedTuple):
    """Inputs of a kernel besides the required arrays: optional arrays, and parameters of the model."""

    optional: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()


class TracedFunction:
    """A function of a model, arrays and options that is traced: base class of `ModelFunction`.

    Parameters
    ----------
    body : callable
        The function: its arguments after the model are arrays, those with default None optional, and its
        keyword-only arguments options.
    shapes : mapping of str to str
        Shape of each array, such as "nv" or "bodies 6".
    options : callable, optional
        Returns checked options in a hashable normal form, from the model and all options.
    methods : mapping of str to callable
        Values of the option `method`, each with a predicate: True if it may need the fewest operations.
    custom_trees : bool
        Whether the function accepts `linkwork.sko.Tree`.
    rule_in : str, optional
        Module that defines the derivative rule, imported when the rule is first needed.
    """

    __name__: str
    __qualname__: str

    def __init__(
        self,
        body: Callable[..., Any],
        shapes: Mapping[str, str],
        options: OptionCheck | None,
        methods: Methods,
        custom_trees: bool,
        rule_in: str | None,
    ) -> None:
        self.body = body
        self.shapes = shapes
        self.methods = methods
        self.custom_trees = custom_trees
        self._check_options = options
        self._rule: DerivativeRule | None = None
        self._rule_in = rule_in
        arguments = list(inspect.signature(body).parameters.values())[1:]
        arrays = [p for p in arguments if p.kind is p.POSITIONAL_OR_KEYWORD]
        self.required = tuple(p.name for p in arrays if p.default is p.empty)
        self.options = {p.name: p.default for p in arguments if p.kind is p.KEYWORD_ONLY}
        # options that may also be arrays, with the number of dimensions above which they are
        self.array_options = {name: len(shapes[name].split()) for name in self.options if name in shapes}
        self.positional = tuple(p.name for p in arrays)
        self.optional = (*(p.name for p in arrays if p.default is not p.empty), *self.array_options)
        self._check_shapes()

    def _check_shapes(self) -> None:
        if set(self.shapes) != {*self.positional, *self.array_options}:
            raise LinkworkError(
                f"{self.__name__}: shapes are given for {sorted(self.shapes)}, not for its arrays"
            )
        for name, words in self.shapes.items():
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
        """Decorate a function that returns the Jacobians with respect to the named arrays.

        The decorated function takes the arguments of the body and returns the Jacobians on the tangent space
        in the order of the names, each a tuple over the outputs if there are several. `lw.jacobian` uses it,
        and so does `lw.vjp` where reverse mode is not possible. If it has an argument `wanted`, that is the
        names needed, and it may return anything for the others.

        Parameters
        ----------
        *names : str
            Names of arrays.
        when : callable, optional
            Returns, from the model and the options, whether the rule holds. Default always.
        pullback : callable, optional
            Returns Jᵀ bar without J: from the weights of the outputs, a tuple, the names of the arrays and
            parameters needed, and the arguments of the body. It returns the outputs, or None to have the body
            compute them, and one array for each name.
        pushforward : callable, optional
            Returns J d for `lw.jvp` likewise, from directions: the outputs, and the change of each.
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

    # arrays and options

    def is_array(self, name: str, value: Any) -> bool:
        """Return whether the value of an option is an array of numbers for each state."""
        if name not in self.array_options:
            return False
        return (
            is_on_gpu(value)
            or has_symbols(value)
            or (hasattr(value, "ndim") and value.ndim > self.array_options[name])
        )

    def arrays(self, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        """Return the arrays of a call by name, optional ones only where they are not None."""
        names = (*self.required, *self.optional)
        if len(args) > len(self.positional):
            raise TypeError(
                f"{self.__name__}: expected a model and {', '.join(self.positional)}, got {len(args)} arrays"
            )
        values = dict(zip(self.positional, args))
        for name, value in named.items():
            if name not in names:
                raise TypeError(f"{self.__name__} has no argument {name!r}")
            if name in values:
                raise TypeError(f"{self.__name__} got {name!r} twice")
            values[name] = value
        missing = [name for name in self.required if name not in values]
        if missing:
            raise TypeError(f"{self.__name__} needs {', '.join(missing)}")
        return {name: values[name] for name in names if values.get(name) is not None or name in self.required}

    def inputs(self, model: Model, optional: Sequence[str], names: Iterable[str]) -> Inputs:
        """Return these optional arrays and parameters as inputs; raise if one is unknown."""
        check_model(self, model)
        for option, value in (("optional", optional), ("parameters", names)):
            if not isinstance(value, Iterable):
                raise LinkworkError(f"{self.__name__}: {option}: expected a sequence of names, got {value!r}")
        selected = (optional,) if isinstance(optional, str) else tuple(optional)
        unknown = [name for name in selected if name not in self.optional]
        if unknown:
            raise LinkworkError(f"{self.__name__} has no optional array {unknown[0]!r}")
        known_parameters = parameter_names.known(model, names) if names else ()
        return Inputs(tuple(name for name in self.optional if name in selected), known_parameters)

    def normalize_options(self, model: Model, options: dict[str, Any]) -> dict[str, Any]:
        """Return all options in the normal form under which kernels are cached."""
        check_model(self, model)
        unknown = [name for name in options if name not in self.options]
        if unknown:
            raise TypeError(
                f"{self.__name__} has no option {unknown[0]!r}; it has {', '.join(self.options) or 'none'}"
            )
        values = {**self.options, **options}
        empty = [name for name, value in values.items() if value is inspect.Parameter.empty]
        if empty:
            raise TypeError(f"{self.__name__} needs {empty[0]}=")
        for name, default in self.options.items():
            # a text such as "no" would count as true
            if isinstance(default, bool) and not isinstance(values[name], (bool, np.bool_)):
                raise ModelError(f"{self.__name__}: {name}: expected True or False, got {values[name]!r}")
        if "method" in values and values["method"] not in ("auto", *self.methods):
            raise LinkworkError(
                f"{self.__name__}: method: expected one of auto, {', '.join(self.methods)}, got "
                f"{values['method']!r}"
            )
        if self._check_options is None:
            return values
        return values | self._check_options(model, **values)

    # programs

    def program(
        self, model: Model, *, optional: Sequence[str] = (), parameters: Iterable[str] = (), **options: Any
    ) -> Program:
        """Return the traced program for a model."""
        return self.program_of(
            model, self.inputs(model, optional, parameters), self.normalize_options(model, options)
        )

    def array_labels(
        self, model: Model, program: Program, options: dict[str, Any], names: Iterable[str] = ()
    ) -> dict[str, ArrayLabels]:
        """Return labels of the entries of a program's arrays, by array.

        `names` are the parameters among the inputs of the program.
        """
        settings = self.normalize_options(model, options)
        optional = [array.name for array in program.inputs if array.name in self.optional]
        inputs = self.inputs(model, optional, names)
        return self.labels_of(model, program, inputs, settings)

    def labels_of(
        self, model: Model, program: Any, inputs: Inputs, settings: Mapping[str, Any]
    ) -> dict[str, ArrayLabels]:
        """Return labels of the entries of the arrays of a program or kernel, by array."""
        names = (*self.required, *inputs.optional, *inputs.parameters)
        names_in_program = dict(zip(self.input_shapes(model, inputs, settings), names))
        return array_labels(
            self.__name__, self.shapes, program.inputs, program.outputs, model, settings, names_in_program
        )

    def identity(self, model: Model, inputs: Inputs, settings: Mapping[str, Any], *code: Any) -> str | None:
        """Return a text that, with the source of this package, determines the program.

        None if the program also depends on custom joints, functions or other code outside the package.
        """
        bodies = (self.body, *code) if code else self.body
        constraints = settings.get("constraints", ())
        if isinstance(model, Tree) or not is_builtin(bodies, model.content, constraints):
            return None
        return repr(
            (self.__module__, self.__qualname__, tuple(inputs), tuple(settings.items()), model.digest)
        )

    def program_of(self, model: Model, inputs: Inputs, settings: dict[str, Any]) -> Program:
        """Return the traced program for a model and options in normal form, by the cheapest method."""
        if settings.get("method") != "auto":
            return self._traced(model, inputs, settings)
        # count every method that may be the cheapest for this model
        candidates = [method for method, is_candidate in self.methods.items() if is_candidate(model)]
        programs = [self._traced(model, inputs, {**settings, "method": method}) for method in candidates]
        return programs[0] if len(programs) == 1 else min(programs, key=_operation_count)

    def input_shapes(
        self, model: Model, inputs: Inputs, settings: Mapping[str, Any]
    ) -> dict[str, tuple[int, ...]]:
        """Return the shapes of a program's inputs by name: arrays first, then parameters."""
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

    def with_method(
        self, model: Model, optional: tuple[str, ...], settings: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the options with "auto" replaced by the method that kernels of this model use."""
        if settings.get("method") != "auto":
            return settings
        nominal = model.nominal
        key: Any = (self, "method", optional, tuple(settings.items()))
        if key not in nominal.cache:
            candidates = [method for method, is_candidate in self.methods.items() if is_candidate(nominal)]
            totals: dict[str, int] = {}
            for method in candidates if len(candidates) > 1 else ():
                program = self._traced(nominal, Inputs(optional), {**settings, "method": method})
                totals[method] = _operation_count(program)
            nominal.cache[key] = min(totals, key=totals.__getitem__) if totals else candidates[0]
        return {**settings, "method": nominal.cache[key]}


def _operation_count(program: Program) -> int:
    return count_operations(program, LOOP_ITERATIONS)["total"]


def check_model(function: TracedFunction, model: Any) -> None:
    """Raise ModelError unless the function accepts this as its model."""
    if isinstance(model, Tree) and not function.custom_trees:
        raise ModelError(
            f"{function.__name__} requires a model with bodies, and {printable(model.name)} is a custom tree "
            "of nodes"
        )
    if not isinstance(model, (Model, Tree)):
        raise ModelError(
            f"{function.__name__}: first argument: expected a model (linkwork.load gives one), got "
            f"{type(model).__name__}"
        )
