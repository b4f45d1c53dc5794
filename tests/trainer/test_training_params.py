import pytest

from mapflake.repro import ParamError
from mapflake.trainer.params import RLParams, WarmStartParams


@pytest.mark.parametrize(
    ("kind", "changed", "said"),
    [
        (RLParams, {"instances": 10}, r"instances \(10\) must be a multiple of prompts \(64\)"),
        (RLParams, {"processes": 2}, r"microbatch \(512\) must divide prompts x generations / processes \(256\)"),
        (RLParams, {"processes": 3}, r"prompts \(64\) must be a multiple of processes \(3\)"),
        (
            RLParams,
            {"sharding": "fsdp2", "processes": 2, "microbatch": 8},
            r"sharding \(fsdp2\) is for full training on several processes that vllm",
        ),
        (WarmStartParams, {"microbatch": 5}, r"microbatch \(5\) must divide batch_size \(48\)"),
        (WarmStartParams, {"steps": 0}, r"where.steps: 0 is not legal"),
        (WarmStartParams, {"model": {"hidden_size": 96, "heads": 5}}, r"where.model: hidden_size \(96\)"),
        (WarmStartParams, {"model": {"hidden_size": 99, "heads": 3}}, r"where.model: hidden_size \(99\)"),  # 33 a head
    ],
)
def test_what_does_not_fit_together_is_named(kind, changed, said):
    with pytest.raises(ParamError, match=said):
        kind.parse(changed, "where")
