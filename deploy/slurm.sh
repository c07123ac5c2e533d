#!/bin/bash
# Fathom on Slurm: one job is the whole cluster, and its first node is the head. docs/clusters.md has
# the details.
#
# Once, on the login node, in the checkout, which all nodes must see at the same path:
#   python3 -m venv .venv && .venv/bin/pip install -c constraints.txt torch
#   .venv/bin/pip install -c constraints.txt -e .
# Then, there too:
#   sbatch deploy/slurm.sh configs/x.yaml
#
# Records, checkpoints and MLflow's store are in runs/ of the checkout, so nothing is lost with the job.
# Near the end of its time, or preempted, the job queues again by itself and resumes; after any other
# end the same sbatch resumes the search.
#
# Three places to edit, each marked EDIT: the number of nodes, their GPUs, and the time limit.
# EDIT: the number of nodes.
#SBATCH --nodes=3
# EDIT: the GPUs of each node. The job takes whole nodes, so that two clusters never share one.
#SBATCH --gpus-per-node=1
# EDIT: the time limit.
#SBATCH --time=24:00:00
#SBATCH --exclusive
#SBATCH --ntasks-per-node=1
#SBATCH --job-name=fathom
#SBATCH --output=fathom-%j.log
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --no-kill
#SBATCH --signal=B:USR1@300

set -euo pipefail

study=${1:?usage: sbatch deploy/slurm.sh STUDY.yaml}
cd "$SLURM_SUBMIT_DIR"
if ! [ -x .venv/bin/fathom ]; then
    echo "$PWD/.venv must hold Fathom: see the first lines of deploy/slurm.sh" >&2
    exit 1
fi
export PATH="$PWD/.venv/bin:$PATH"

# Ray listens on the nodes' network and requires the token, which all nodes read in the shared home.
export RAY_AUTH_MODE=token
(umask 077 && ray get-auth-token --generate > /dev/null)

# The address by which Slurm reaches this node, so the network that all of them share: a machine may
# have several, and its own name often stands for 127.0.1.1 on it.
address=$(scontrol show node "$SLURMD_NODENAME" | sed -n 's/.*NodeAddr=\([^ ]*\).*/\1/p')
address=$(getent ahostsv4 "$address" | sed -n '/^127\./d; s/ .*//p' | head -n 1)
address=${address:-$(hostname -I | cut -d ' ' -f 1)}
# Ray opens a file for each connection between its processes.
ulimit -n "$(ulimit -Hn)"
# Ray opens its folder to every user of a node, so it lies in one that only this user can enter.
private=$(mktemp -d /tmp/fathom-XXXXXXXX)
ray start --head --block --node-ip-address="$address" --port=6379 --dashboard-host=127.0.0.1 \
    --num-cpus="$SLURM_CPUS_ON_NODE" --temp-dir="$private/ray" &
trap 'kill $(jobs -p) 2> /dev/null || true; wait; rm -rf "$private"' EXIT

export RAY_ADDRESS="$address:6379"
# A worker that starts before the head is ready tries again by itself.
if [ "$SLURM_JOB_NUM_NODES" -gt 1 ]; then
    # shellcheck disable=SC2016  # the shell of each node fills in what stands in single quotes
    srun --nodes="$((SLURM_JOB_NUM_NODES - 1))" --ntasks="$((SLURM_JOB_NUM_NODES - 1))" \
        --exclude="$SLURMD_NODENAME" --kill-on-bad-exit=0 --cpu-bind=none \
        sh -c 'mkdir -m 700 "$0" || exit
            trap : TERM; trap "rm -rf \"$0\"" EXIT  # once Ray has ended
            ulimit -n "$(ulimit -Hn)"
            # Nodes of one job may differ, and Slurm tells each its own number of CPUs.
            ray start --block --num-cpus="$SLURM_CPUS_ON_NODE" "$@"' "$private" \
        --address="$RAY_ADDRESS" &
fi

# Fathom counts the trials that can run at once when the search starts, so all nodes must join first.
python - "$SLURM_JOB_NUM_NODES" <<'END'
import sys, time
import ray

wanted, joined, deadline = int(sys.argv[1]), 0, time.monotonic() + 300
while joined < wanted and time.monotonic() < deadline:
    try:
        ray.init(logging_level="ERROR", log_to_driver=False)
        joined = sum(node["Alive"] for node in ray.nodes())
    except ConnectionError:
        pass
    ray.shutdown()
    time.sleep(2)
if joined < wanted:
    sys.exit(f"{joined} of {wanted} nodes joined within 5 minutes; the lines above say why")
END

fathom run "$study" &
search=$!
# The requeued job resumes the study from its records and checkpoints.
trap 'kill "$search"; wait "$search" || true; scontrol requeue "$SLURM_JOB_ID"' USR1
wait "$search"
