"""The model engineer by script, the names of arms."""

from dataclasses import replace

import pytest
from chat_server import Chat, completion, serving
from engineer_samples import REPORTS, SIZES, ScriptedPolicy, history

from mapflake.engineer import EngineerParams, Variant, build_prompt, designer_for, llm_engineer, reply_grammar
from mapflake.engineer.designers import RULES, RuleInputs, engineer_arm, params_of
from mapflake.engineer.reply import reply_schema
from mapflake.env import EnvConfig, SizeConfig
from mapflake.repro import ParamError

GOOD = "size3 p20 p10 p50 size4 p80 p00 any end"
JSON = """{"sizes": {"3": {"data_ratio": 0.2, "hole_ratio": 0.1, "wait_ratio": 0.5},
"4": {"data_ratio": 0.8, "hole_ratio": 0.0, "wait_ratio": null}}}"""
WANTED = EnvConfig({3: SizeConfig(0.2, 0.1, 0.5), 4: SizeConfig(0.8, 0.0, None)})


def ask(replies, samples=4, past=None, **options):
    policy = ScriptedPolicy({}, replies)
    design = llm_engineer(lambda _: policy, SIZES, EngineerParams(samples=samples, **options), seed=5)
    past = past or history(1)
    return design(past[-1].report, past), policy


def test_the_first_reply_that_is_not_rejected_counts_and_missing_ones_are_empty(caplog):
    proposal, policy = ask([None, "size3 end", "\ud800", GOOD])
    assert (proposal.config, proposal.reply) == (WANTED, GOOD)
    assert proposal.replies == ("", "size3 end", "\ufffd", GOOD)
    assert "1 of 4 replies did not come" in caplog.text
    assert proposal.prompt == build_prompt(REPORTS[0], history(1), SIZES, prompt_format="compact")
    assert (policy.calls[0]["prompts"], policy.calls[0]["n"]) == ([proposal.prompt], 4)
    assert ask([None], samples=1)[0].rejection == "empty"
    with pytest.raises(ValueError, match="complete: takes a list of up to 1 texts for each prompt"):
        ask(GOOD, samples=1)  # a flat list
    assert ask([], samples=2)[0].replies == ("", "")


def test_every_round_has_its_own_noise():  # which arms share: test_arms_by_name
    assert len({ask([GOOD], samples=1, past=history(n))[1].calls[0]["seed"] for n in (1, 2, 3)}) == 3


class Answering(Chat):
    """The first reply is no configuration, the next ones are."""

    def respond(self, asked, number):
        self.answer(200, completion(JSON if number else "Let me think."))


def test_a_model_behind_a_server_designs():
    with serving(Answering) as server:
        endpoint = {"model": "openai:Qwen/Qwen3-4B", "base_url": f"{server.url}/v1"}
        params = EngineerParams(samples=2, constrained=True, **endpoint)
        proposal = designer_for("engineer", inputs(None), params, load=None)(REPORTS[0], history(1))
    assert proposal.config == WANTED
    assert sorted(proposal.replies) == sorted(["Let me think.", JSON])
    assert proposal.prompt_format == "json"
    for request in server.asked:
        assert (request["path"], request["model"]) == ("/v1/chat/completions", "Qwen/Qwen3-4B")
        assert request["messages"][-1] == {"role": "user", "content": proposal.prompt}
        schema = request["response_format"]["json_schema"]["schema"]  # this server ignores it
        assert schema == reply_schema(SIZES)


def test_agents_are_those_of_the_last_configuration():
    past = (replace(history(1)[0], config=EnvConfig.uniform([4], 0.1, 0.5, num_agents=3)),)
    assert ask([GOOD], samples=1, past=past)[0].config == replace(WANTED, num_agents=3)


def inputs(load):
    return RuleInputs(SIZES, 1, lambda past: load(past[-1].checkpoint), WANTED)


ENGINEERS = ("engineer", "engineer_base", "engineer_none", "engineer_v3", "engineer_mean_v3")


def test_arms_by_name():
    loaded = []
    policy = ScriptedPolicy({}, [GOOD] * 4)

    def load(path):
        loaded.append(str(path))
        return policy

    past = (*history(1), replace(history(2)[1], checkpoint="last"))
    for arm in (*ENGINEERS, "heuristic"):
        params = params_of(arm, EngineerParams())
        proposal = designer_for(arm, inputs(load), params, base="warm", load=load)(past[-1].report, past)
        assert proposal.config is not None
        assert (proposal.prompt_format == "compact") == (arm in ENGINEERS)
    assert loaded == ["last", "warm", *["last"] * (len(ENGINEERS) - 2)]
    prompts = dict(zip(ENGINEERS, (call["prompts"][0] for call in policy.calls), strict=True))
    assert prompts["engineer"] == prompts["engineer_base"]
    assert prompts["engineer_v3"] == prompts["engineer_mean_v3"]  # others' reports are told by run_arm
    assert len({prompts[arm] for arm in ("engineer", "engineer_none", "engineer_v3")}) == 3
    assert prompts["engineer_none"] == "engineer design"
    assert len({call["seed"] for call in policy.calls}) == 1  # the same noise for all


def test_a_grammar_is_a_parameter():
    _, policy = ask([GOOD], samples=1, constrained=True)
    assert policy.calls[0]["grammar"] == reply_grammar(SIZES, "compact")
    assert "grammar" not in ask([GOOD], samples=1)[1].calls[0]  # the control


class Plain:
    """A policy of one's own that can be bound by nothing."""

    prompt_format = "compact"

    def complete(self, prompts, *, n=1, temperature=1.0, max_new_tokens=None, seed=0, progress=None):
        return [[GOOD] * n for _ in prompts]


def test_a_policy_that_takes_no_grammar_is_refused_if_it_is_to_be_constrained():
    def asked(constrained):
        design = llm_engineer(lambda past: Plain(), SIZES, EngineerParams(constrained=constrained), seed=0)
        return design(REPORTS[0], history(1))

    with pytest.raises(ValueError, match="constrained: the policy's `complete` takes neither `grammar` nor `schema`"):
        asked(True)
    assert asked(False).config == WANTED


@pytest.mark.parametrize(
    ("arm", "changes", "label"),
    [
        ("engineer", {}, "paper's engineer"),
        ("engineer_base", {"model": "base", "base_url": None}, "base model as engineer"),
        ("engineer_none", {"variant": "schema"}, "paper's engineer, no report"),
        (
            "engineer_trained_another_v3",
            {"design_rl": "before", "report": "another", "variant": "V3"},
            "trained engineer, another's report, V3",
        ),
        ("engineer_trained_dynamic", {"design_rl": "before"}, "trained engineer"),
        (
            "engineer_search_mean",
            {"model": "search", "report": "mean"},
            "search by the reward, mean report",
        ),
    ],
)
def test_an_engineers_name_is_its_parameters(arm, changes, label):
    assert engineer_arm(arm) == (changes, label)
    options = {} if "search" in arm else {"samples": 2}  # the search draws no replies
    assert params_of(arm, EngineerParams(samples=2)) == EngineerParams(**options, **changes)


def test_what_is_no_engineers_name():
    for arm in (
        *("trained", "trained_dynamic", "engineer_v7", "engineer_v3_none", "engineer_mean_base"),
        *("engineer_search_v3", "engineer_search_none"),  # it has no prompt
    ):
        with pytest.raises(ValueError, match=r"is none of fixed, .*, frontier, mine, engineer\[_base\|"):
            params_of(arm, EngineerParams(), {"mine": {}})
    for designers, message in (
        ({"fixed": {}}, "'fixed' is the name of an arm already"),
        ({"own": None}, "own: must be parameters"),
    ):
        with pytest.raises(ValueError, match=message):
            params_of("fixed", EngineerParams(), designers)
    for arm in ("learnabilty", "engineer"):
        with pytest.raises(ValueError, match=f"^arm: '{arm}' is none of the rules fixed, .*; a model's takes asked="):
            designer_for(arm, inputs(None), load=None)
    with pytest.raises(ValueError, match="needs the checkpoint of the base model"):
        designer_for("engineer_base", inputs(None), params_of("engineer_base", EngineerParams()), load=None)


def test_a_model_of_ones_own_is_a_line():
    loaded = []

    def load(path):
        loaded.append(path)
        return ScriptedPolicy({}, [GOOD] * 4)

    designers = {"older": {"model": "runs/x/round-0/checkpoint", "variant": {"guideline": True, "history": "all"}}}
    params = params_of("older", EngineerParams(samples=2), designers)
    design = designer_for("older", inputs(load), params, load=load)
    proposal = design(REPORTS[0], history(1))
    assert loaded == ["runs/x/round-0/checkpoint"]
    expected = Variant(guideline=True, history="all")
    assert proposal.prompt == build_prompt(REPORTS[0], history(1), SIZES, variant=expected, prompt_format="compact")
    assert (params.samples, params.variant) == (2, expected)
    assert params == EngineerParams.parse(params.model_dump(mode="json"), "again")
    assert params_of("fixed", EngineerParams()) is None
    search = EngineerParams(model="search", report="another")  # it cannot be lost: a control would be none
    assert params_of("engineer", search) == params_of("engineer_search_another", EngineerParams()) == search
    assert params_of("older_dynamic", EngineerParams(samples=2), designers) == params


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mine_dynamic", "'mine_dynamic': _dynamic at the end means"),
        ("base", "'base' is the name of records that every run has"),
        ("engineer_v2", "'engineer_v2' is the name of an arm already"),
        ("learnability", "'learnability' is the name of an arm already"),
        ("../x", "'../x' is no name: up to 40 of a-z"),
    ],
)
def test_a_rule_of_ones_own_has_a_name_that_no_record_has(monkeypatch, name, said):
    with monkeypatch.context() as control:
        control.setitem(RULES, "mine", RULES["fixed"])
        assert params_of("mine", EngineerParams()) is None
    monkeypatch.setitem(RULES, name, RULES["uniform"])
    with pytest.raises(ValueError, match=f"^RULES: {said}"):
        params_of("fixed", EngineerParams())


def test_a_prompt_is_counted_in_the_tokens_of_its_policy():
    proposal, policy = ask([GOOD], samples=1)
    words = len(proposal.prompt.split())
    policy.tokenizer = lambda text, add_special_tokens: {"input_ids": [0] * 2 * len(text.split())}
    design = llm_engineer(lambda _: policy, SIZES, EngineerParams(prompt_tokens=words), seed=5)
    with pytest.raises(ValueError, match=f"the prompt has {2 * words} tokens .*, the budget is {words}"):
        design(REPORTS[0], history(1))


def test_a_prompt_has_no_more_tokens_than_the_context_leaves_beside_a_reply():
    """However many rounds there were: the oldest are left out, where the policy would otherwise refuse the prompt."""
    past = history(3)
    whole, policy = ask([GOOD] * 3, samples=1, past=past, variant="V6")
    words, longest = len(whole.prompt.split()), policy.calls[0]["max_new_tokens"]
    policy.tokenizer = lambda text, add_special_tokens: {"input_ids": text.split()}
    design = llm_engineer(lambda _: policy, SIZES, EngineerParams(samples=1, variant="V6"), seed=5)
    policy.context = words + longest
    assert design(past[-1].report, past).prompt == whole.prompt  # the control
    policy.context -= 1
    assert 0 < len(design(past[-1].report, past).prompt.split()) < words


def test_wrong_parameters_are_errors():
    for values, message in (
        ({"variant": "V0"}, r"engineer.variant: 'V0' is not legal: variant 'V0' is unknown; legal: V1"),
        ({"variant": None}, r"^engineer.variant: None is not legal: neither the name of a context nor its sections"),
        ({"variant": {"guidline": True}}, "variant.guidline: unknown key; did you mean 'guideline'"),
        ({"base_url": "http://127.0.0.1:1"}, "base_url: of a server, but model is 'current', not openai:<name>"),
    ):
        with pytest.raises(ParamError, match=message):
            EngineerParams.parse(values, "engineer")
