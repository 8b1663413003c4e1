import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hpfl
from hpfl.config import ConfigError, fingerprint, load, preset, preset_names, resolve, to_toml
from hpfl.config.loading import SYSTEMS, validated


@pytest.mark.parametrize("name", preset_names())
@pytest.mark.parametrize("system", [None, *SYSTEMS])
def test_every_preset_resolves_as_every_system_and_reads_back_as_itself(name, system):
    config = load(name, system=system)
    assert validated(tomllib.loads(to_toml(config))) == config
    assert not isinstance(resolve(config).planning.phi, str)


def test_what_is_auto_follows_whatever_is_changed_later():
    config = validated(tomllib.loads(to_toml(preset("quickstart-paper"))))
    config.planning.staleness_bound, config.learning.inner_lr = 5, 0.3
    changed = load("quickstart-paper", overrides=["planning.staleness_bound=5", "learning.inner_lr=0.3"])
    assert resolve(config) == resolve(changed)
    assert resolve(config).planning.phi == pytest.approx(5 * 0.07 * 5**2 / 15)
    assert resolve(config).evaluation.inner_lr == 0.3
    assert "here 9.33333" in to_toml(preset("quickstart-paper"))


def test_a_cap_beyond_the_number_of_edges_weighs_importance_as_all_edges_do():
    caps = [
        resolve(load("quickstart-paper", overrides=[f"planning.max_edges={A}"])).planning.phi for A in (19, 20, 400)
    ]
    assert caps[0] > caps[1] == caps[2]


@pytest.mark.parametrize("name", preset_names())
def test_show_explains_every_key(name):
    for line in to_toml(preset(name)).splitlines():
        assert not line or line.startswith("[") or "#" in line


def test_shipped_presets_are_the_papers_network():
    config = preset("paper-mnist")
    assert (config.network.edges, config.network.num_ues, config.network.bandwidth_hz) == (20, 200, 5e6)
    assert (config.learning.inner_lr, config.learning.outer_lr) == (0.03, 0.07)
    assert resolve(config).planning.phi == pytest.approx(5 * 0.07 * 20**2 / 15)
    assert preset("paper-cifar10").learning.model == "lenet5"


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("planning.rho=1.4", "planning.rho is 1.4; it should be less than or equal to 1"),
        ("network.bandwidth_hz=-5", "network.bandwidth_hz is -5; it should be greater than 0"),
        ("network.bandwidth_hz=fast", "network.bandwidth_hz is 'fast'; it should be a number"),
        ("network.bandwidth_hz=nan", "network.bandwidth_hz is nan"),
        ("network.cpu_hz={choice=[1e9,2e9],shares=[0.5]}", "2 values need as many shares, not 1"),
        ("network.cpu_hz={choice=[1e9,2e9],shares=[-1,2]}", "network.cpu_hz.shares is -1; it should be greater than 0"),
        ("network.cpu_hz={lognorm=[1,2]}", "it should be a number, [low, high], { choice = [...], shares"),
        ("network.bandwidth_hz=inf", "network.bandwidth_hz is inf"),
        ("network.reuse=21", "network.reuse is 21; there are network.edges = 20 cells"),
        ("network.reuse=0", "network.reuse is 0; it should be greater than or equal to 1"),
        ("network.downlink=cheap", "network.downlink is 'cheap'"),
        ("network.cloud_power_w=-1", "network.cloud_power_w is -1"),
        ("training.rounds=1.5", "training.rounds is 1.5"),
        ("training.rounds=true", "training.rounds is True"),
        ("planning.planer=random", "planning.planer is not a key; did you mean planning.planner?"),
        ("planning.planner=randon", "planning.planner is 'randon'; no planner is called 'randon'"),
        ("data.labels_per_ue=11", "data.labels_per_ue is 11; mnist-mini has 10 classes"),
        ("data.dataset=mnits", "data.dataset is 'mnits'; no data set is called 'mnits'"),
        ("data.edge_skew=2", "data.edge_skew is 2"),
        ("data.samples_per_ue=[60, 20]", "data.samples_per_ue is [60, 20]"),
        ("data.samples_per_ue=0", "data.samples_per_ue is 0"),
        ("network.ues_per_edge=[3, 4]", "network.ues_per_edge lists 2 edges; network.edges is 20"),
        ("network.ues_per_edge=0", "network.ues_per_edge is 0"),
        ("network.cpu_hz={choice=[1e9, -1.0]}", "network.cpu_hz"),
        ("evaluation.inner_lr=-1.0", "evaluation.inner_lr is -1.0"),
        ("planning.phi=-1.0", "planning.phi is -1.0"),
        ("nonsense", "--set nonsense is not of the form section.key=value"),
        ("rho=0.5", "--set rho=0.5 is not of the form section.key=value; did you mean planning.rho=0.5?"),
        ("planning.seed=3", "planning.seed is not a key; did you mean training.seed?"),
        ("learning.model=no.such.module:thing", "learning.model is 'no.such.module:thing'"),
        ("learning.model=resnet", "learning.model is 'resnet'; no model is called 'resnet'"),
        ("learning.loss=huh", "learning.loss is 'huh'; no loss is called 'huh'"),
    ],
)
def test_bad_values_are_refused_naming_key_value_and_wish(override, said):
    with pytest.raises(ConfigError) as error:
        load("quickstart-paper", overrides=[override])
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_bad_value_assigned_in_python_is_refused_at_once():
    config = hpfl.preset("quickstart-paper")
    with pytest.raises(ValueError, match="rho"):
        config.planning.rho = 1.4


def test_fields_assigned_in_python_are_checked_together_before_work():
    config = preset("quickstart-paper")
    config.network.ues_per_edge = [1, 2, 3]
    with pytest.raises(ConfigError, match="lists 3 edges"):
        resolve(config)


def test_overrides_win_over_systems_and_systems_over_presets():
    assert load("quickstart-paper", system="shpfl").planning.planner == "shpfl"
    assert load("quickstart-paper", system="shpfl", overrides=["planning.planner=full"]).planning.planner == "full"


def test_two_tier_systems_are_one_edge_without_backhaul():
    config = load("quickstart-paper", system="fl")
    assert (config.network.edges, config.network.num_ues, config.network.backhaul) == (1, 200, False)
    assert config.learning.inner_lr == 0.0


def test_two_tier_systems_gather_whatever_network_was_asked_for():
    config = load("quickstart-paper", system="fl", overrides=["network.edges=4", "network.ues_per_edge=3"])
    assert (config.network.edges, config.network.num_ues) == (1, 12)


def test_shared_model_systems_are_evaluated_with_the_presets_adaptation_step(tmp_path):
    assert load("quickstart-paper", system="hfl").evaluation.inner_lr == 0.03
    path = tmp_path / "mine.toml"
    path.write_text("[learning]\ninner_lr = 0.05\n")
    assert load(path, system="hfl").evaluation.inner_lr == 0.05


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[planning]\nrho = 'high'\n", "planning.rho is 'high'"),
        ("[plannning]\nrho = 0.5\n", "plannning is not a section; did you mean planning?"),
        ("rho = 0.5\n", "rho is not a section; did you mean planning.rho?"),
        ("roh = 0.5\n", "roh is not a section; did you mean planning.rho?"),
        ("inner_lr = 0.5\n", "did you mean learning.inner_lr or evaluation.inner_lr?"),
        ("[planning]\nseed = 3\n", "planning.seed is not a key; did you mean training.seed?"),
        ("zzz = 1\n", "zzz is not a section; the sections are network, data, learning"),
        ("[life]\nzzz = 1\n", "life.zzz is not a key; section life has sample_fraction, sample_count"),
        ("rho == 3", "is not TOML"),
        ("[planning]\nrho = 0.5\nrho = 0.6\n", "is not TOML"),
        ("planning = 3\n", "planning is 3; it should be a section: [planning]"),
    ],
)
def test_bad_files_are_refused(tmp_path, text, said):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        load(path)
    assert said in str(error.value)


def test_a_missing_file_is_answered_with_the_presets():
    with pytest.raises(ConfigError, match="neither a file nor a preset; the presets are quickstart"):
        load("quickstrat")


@settings(deadline=None, max_examples=25)
@given(
    rho=st.floats(0, 1),
    bandwidth=st.floats(1.0, 1e12),
    samples=st.lists(st.floats(1, 1e4), min_size=2, max_size=2).map(sorted),
)
def test_every_valid_number_survives_toml(rho, bandwidth, samples):
    config = preset("quickstart-paper")
    config.planning.rho, config.network.bandwidth_hz, config.data.samples_per_ue = rho, bandwidth, samples
    assert validated(tomllib.loads(to_toml(config))) == config


def test_rounded_products_are_refused_where_differences_need_their_digits():
    assert load("quickstart-paper", overrides=["learning.dtype=bf16"]).learning.dtype == "bf16"
    for dtype in ("tf32", "bf16"):
        with pytest.raises(
            ConfigError, match=f'learning.dtype is "{dtype}"; learning.method_options.gradient = "hessian'
        ):
            load("quickstart-paper", overrides=[f"learning.dtype={dtype}", "learning.objective=hessian-free"])


def test_fingerprint_ignores_length_and_sees_everything_else():
    base = fingerprint(preset("quickstart-paper"))
    assert fingerprint(load("quickstart-paper", overrides=["training.rounds=7"])) == base
    assert fingerprint(load("quickstart-paper", overrides=["training.seed=7"])) != base
    assert fingerprint(load("quickstart-paper", overrides=["planning.staleness_price=none"])) != base


@pytest.mark.parametrize("name", ["cloud_power_w", "edge_down_power_w"])
def test_a_charged_downlink_needs_powers(name):
    silent = f"network.{name}=0"
    resolve(load("quickstart-paper", overrides=[silent]))
    with pytest.raises(
        ConfigError, match=rf'network.{name} is 0 W; network.downlink = "charged" needs a transmit power'
    ):
        load("quickstart-paper", overrides=[silent, "network.downlink=charged"])


def test_a_free_downlink_leaves_the_fingerprint_as_it_was():
    plain, charged = load("quickstart-paper"), load("quickstart-paper", overrides=["network.downlink=charged"])
    free = load(
        "quickstart-paper", overrides=["network.downlink=free", "network.reuse=1", "network.cloud_power_w=0.01"]
    )
    assert fingerprint(plain) == fingerprint(free) != fingerprint(charged)
