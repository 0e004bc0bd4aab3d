# What to type.  Everything else is in scripts/.

.PHONY: run test check wheel lab lab-stop test-lab bench gpu-check collect-host screenshots lock clean
python := .venv/bin/python
LAB_TESTS = tests/lab
export XDG_CACHE_HOME ?= $(HOME)/.cache

run:  ## set-up, then the whole portal; Ctrl-C ends it
	@scripts/setup run
	@exec $(python) -m scripts.stack run

test:  ## set-up, then all tests with private services
	@scripts/setup test
	@$(python) -m scripts.stack with postgres,redis,libvirt -- $(python) -m pytest $(ARGS)

check:  ## what needs no service: style, types, import contracts, house rules, migrations
	@scripts/setup test
	@scripts/check

wheel:  ## set-up, then dist/tessera-VERSION-py3-none-any.whl, which needs no npm where it is installed
	@scripts/setup run
	@scripts/wheel

lab:  ## set-up, then a GPU host without a GPU (tests/lab/README.md), as host `lab` of the portal that `make run` runs
	@scripts/setup lab
	@$(python) -m tests.lab join

lab-stop:  ## ends that host, and says what stays of it in the portal
	@$(python) -m tests.lab stop

test-lab:  ## set-up, then the tests against that host, with private services; LAB_TESTS for some of them
	@scripts/setup lab
	@$(python) -m tests.lab build
	@$(python) -m scripts.stack with postgres,redis,libvirt -- $(python) -m pytest $(LAB_TESTS) $(ARGS)

bench:  ## benchmarks, one JSON object a line; ONLY=name for one
	@scripts/setup test >&2
	@$(python) -m scripts.stack with postgres,redis,libvirt -- $(python) -m tests.bench $(ONLY)

gpu-check:  ## on a machine with a real GPU: what Tessera sees of it, as JSON
	@scripts/gpu_check

collect-host:  ## how a host is packed that is to be looked at elsewhere (vmctl --root FOLDER)
	@sed -n 's/^#: \{0,1\}//p' scripts/collect_host

screenshots:  ## the README's pictures, taken anew
	@scripts/setup test
	@$(python) -m scripts.stack with postgres,redis,libvirt -- $(python) -m tests.browser.screenshots

lock:  ## requirements/*.txt anew from pyproject.toml
	@scripts/lock

clean:  ## everything made here goes, the data of `make run` too
	rm -rf .venv node_modules static/build var build dist *.egg-info
