"""Transformers, and the GEMMs in them that an all-reduce follows."""

import dataclasses

from t3hw.data_files import DATA, check_fields, read_toml

from .errors import InputError

__all__ = ["SUBLAYERS", "Model", "Sublayer", "find_model", "load_models", "sublayers"]

#: Name of a sublayer: pass, and K in units of hidden / tp.
SUBLAYERS = {
    "OP": ("forward", 1),       # output projection of attention
    "FC-2": ("forward", 4),     # second matrix of the feed-forward block
    "FC-1": ("backward", 4),    # gradient of the feed-forward block's input
    "IP": ("backward", 3),      # gradient of the input of queries, keys and values
}

_SIZES = {"hidden": 1 << 20, "layers": 1 << 12, "sequence": 1 << 24, "batch": 1 << 20,
          "heads": 1 << 14}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
    """A transformer, as far as the sublayers' shapes go.

    Parameters
    ----------
    name : str
        Of the model.
    hidden : int
        Width of the residual stream.
    layers : int
        Transformer layers.
    sequence, batch : int
        Tokens of a sequence, and sequences that a device works on at a time.
    heads : int
        Attention heads; divide ``hidden``, and are divided by every TP degree.
    tp : tuple of int
        Tensor-parallel degrees that a report covers.
    group : str
        Whose geometric mean the model is part of.
    assumed : dict of str to str
        Field: what was assumed, as there is no source for it.

    Raises
    ------
    InputError
        For every value that cannot be.
    """

    name: str
    hidden: int
    layers: int
    sequence: int
    batch: int
    heads: int
    tp: tuple
    group: str = "other"
    assumed: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        for field in ("name", "group"):
            value = getattr(self, field)
            if not isinstance(value, str) or not value:
                raise InputError(f"{field} of a model must be text, not {value!r}")
        for field, most in _SIZES.items():
            value = getattr(self, field)
            if type(value) is not int or not 1 <= value <= most:
                raise InputError(f"{self.name}: {field} must be an integer from 1 to {most}, "
                                 f"not {value!r}")
        if self.hidden % self.heads:
            raise InputError(f"{self.name}: heads must divide the hidden size {self.hidden}, "
                             f"not {self.heads!r}")
        if not isinstance(self.tp, (list, tuple)) or not self.tp:
            raise InputError(f"{self.name}: tp must be one or more TP degrees, not {self.tp!r}")
        object.__setattr__(self, "tp", tuple(self.tp))
        for tp in self.tp:
            self.check_tp(tp)
        if not isinstance(self.assumed, dict):
            raise InputError(f"{self.name}: assumed must be a table, not {self.assumed!r}")
        fields = {field.name for field in dataclasses.fields(self)}
        for field in self.assumed:
            if field not in fields:
                raise InputError(f"{self.name}: assumed names {field!r}, which is no field")

    @property
    def tokens(self):
        """Rows of every sublayer's output."""
        return self.sequence * self.batch

    def check_tp(self, tp):
        """Refuse a TP degree that cannot be.

        Raises
        ------
        InputError
            If it is no integer of at least 2, or does not divide the heads.
        """
        if type(tp) is not int or tp < 2:
            raise InputError(f"{self.name}: tp must be an integer of at least 2, not {tp!r}")
        if self.heads % tp:
            divisors = [str(count) for count in range(2, self.heads + 1) if self.heads % count == 0]
            raise InputError(f"{self.name}: tp must divide the {self.heads} heads "
                             f"({', '.join(divisors)}), not {tp}")

    def sublayer(self, name, tp):
        """The sublayer of that name at that TP degree.

        Raises
        ------
        InputError
            If there is no such sublayer, or the TP degree cannot be.
        """
        return Sublayer(model=self, name=name, tp=tp)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sublayer:
    """A GEMM that an all-reduce follows: ``rows x k`` times ``k x columns`` on each device.

    Parameters
    ----------
    model : Model
        It is part of.
    name : str
        Of `SUBLAYERS`.
    tp : int
        Devices that K is sliced over.

    Raises
    ------
    InputError
        If there is no such sublayer, or the TP degree does not divide the model's heads.
    """

    model: Model
    name: str
    tp: int

    def __post_init__(self):
        if not isinstance(self.name, str) or self.name not in SUBLAYERS:
            raise InputError(f"no sublayer {self.name!r}; sublayers are {', '.join(SUBLAYERS)}")
        self.model.check_tp(self.tp)

    def __str__(self):
        return f"{self.model.name} {self.name} TP {self.tp}"

    @property
    def direction(self):
        """``"forward"`` or ``"backward"``."""
        return SUBLAYERS[self.name][0]

    @property
    def rows(self):
        """Of the output: tokens."""
        return self.model.tokens

    @property
    def columns(self):
        """Of the output: the hidden size."""
        return self.model.hidden

    @property
    def k(self):
        """Length of the sums on one device."""
        return SUBLAYERS[self.name][1] * self.model.hidden // self.tp

    @property
    def shape(self):
        """Rows, columns, k and TP degree: sublayers that agree in them behave alike."""
        return self.rows, self.columns, self.k, self.tp

    @property
    def flops(self):
        """Multiplications and additions on one device."""
        return 2 * self.rows * self.columns * self.k

    def output_bytes(self, element_bytes=2):
        """Bytes of the output, all of which each device has a partial sum of."""
        return self.rows * self.columns * element_bytes


def load_models(path=DATA / "models.toml"):
    """All models of a file, by name.

    Raises
    ------
    InputError
        If the file cannot be read, or a model in it cannot be.
    """
    fields = [field.name for field in dataclasses.fields(Model) if field.name != "name"]
    models = {}
    for name, table in read_toml(path).items():
        check_fields(f"{path}: {name}", table, fields, optional=("group", "assumed"))
        models[name] = Model(name=name, **table)
    return models


def find_model(name, models=None):
    """The model of that name, whatever its capitals.

    Raises
    ------
    InputError
        If there is none; the message lists those that there are.
    """
    models = load_models() if models is None else models
    for known, model in models.items():
        if known.lower() == str(name).lower():
            return model
    raise InputError(f"no model {name!r}; models are {', '.join(models)}")


def sublayers(*, model=None, sublayer=None, tp=None, models=None):
    """The sublayers that a report covers, in its order, as far as they match what is given.

    Parameters
    ----------
    model, sublayer : str or None
        Name, or None for all.
    tp : int or None
        TP degree, or None for those that the model's file lists.
    models : dict or None
        Models to choose from; those of `load_models` if None.

    Raises
    ------
    InputError
        If a name is unknown, or the TP degree cannot be for a model.
    """
    models = load_models() if models is None else models
    chosen = list(models.values()) if model is None else [find_model(model, models)]
    names = list(SUBLAYERS) if sublayer is None else [sublayer.upper()]
    return [entry.sublayer(name, degree)
            for entry in chosen
            for degree in (entry.tp if tp is None else (tp,))
            for name in names]
