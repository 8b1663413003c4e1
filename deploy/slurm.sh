#!/bin/bash
# One run, or a sweep, on the nodes of a SLURM job: sbatch deploy/slurm.sh run massive --workers 8 --cpus-per-worker 2
#SBATCH --job-name=hpfl
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --time=04:00:00
set -euo pipefail

# The environment, the data and the folder of results lie where all nodes see them, at the same path.
source .venv/bin/activate

# Nobody joins the cluster or gives it work without this token; it is of this job alone.
export RAY_AUTH_MODE=token
RAY_AUTH_TOKEN=$(python -c 'import secrets; print(secrets.token_hex(32))')
export RAY_AUTH_TOKEN
export RAY_USAGE_STATS_ENABLED=0

HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
PORT=$((20000 + SLURM_JOB_ID % 20000))
COMMAND=$1
shift

# Starts Ray on every node, runs the command on the first of them, and ends Ray with it.
srun ray symmetric-run --address "$HEAD:$PORT" --min-nodes "$SLURM_JOB_NUM_NODES" --num-cpus "$SLURM_CPUS_PER_TASK" -- \
  hpfl "$COMMAND" "$@" --engine ray --address "$HEAD:$PORT"
