#!/usr/bin/env python3
"""What a user sees of a job: profiles hold `record_param_comms` with the arguments of each call, and PyTorch's own analyzer
reads the flight recorder's dumps: it finds nothing in those of a job without faults, and names the rank or the call else.

usage: observed.py [NAME...]
"""

import datetime
import json
import multiprocessing
import os
import pickle
import sys
import tempfile
import time
from pathlib import Path

LIMIT_S = 60  # of a call that is to succeed
CALLS = {  # as rank 0 of two: in and out elements, what else is shown
    "allreduce": (6, 6, {"dtype": "Float", "Rank": 0}),
    "broadcast": (6, 6, {"Rank": 1}),
    "_allgather_base": (3, 6, {"dtype": "Int"}),
    "_reduce_scatter_base": (6, 3, {"dtype": "Double"}),
    "all_gather": (2, 4, {}),
    "gather": (2, 4, {"Rank": 1}),
    "all_to_all": (4, 4, {"In split size": "[2, 2]"}),
    "all_to_allv": (5, 5, {"In split size": "[2, 3]", "Out split size": "[2, 3]"}),
    "send": (4, 4, {"Dst Rank": 1}),
    "recv": (4, 4, {"Src Rank": 1}),
    "barrier": (0, 0, {}),
}


def profiled_calls(torch, dist, rank):
    dist.all_reduce(torch.ones(2, 3))
    dist.broadcast(torch.ones(6), 1)
    dist.all_gather_into_tensor(torch.zeros(6, dtype=torch.int), torch.ones(3, dtype=torch.int))
    dist.reduce_scatter_tensor(torch.zeros(3, dtype=torch.double), torch.ones(6, dtype=torch.double))
    dist.all_gather([torch.zeros(2), torch.zeros(2)], torch.ones(2))
    dist.gather(torch.ones(2), [torch.zeros(2), torch.zeros(2)] if rank == 1 else None, 1)
    dist.all_to_all([torch.zeros(2), torch.zeros(2)], [torch.ones(2), torch.ones(2)])
    splits = [2, 3] if rank == 0 else [3, 4]
    dist.all_to_all_single(torch.zeros(sum(splits)), torch.ones(sum(splits)), splits, splits)
    for turn in (dist.send, dist.recv) if rank == 0 else (dist.recv, dist.send):
        turn(torch.ones(4), 1 - rank)
    dist.barrier()


def a_profile_has_each_call(torch, dist, rank, folder):
    from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile

    group = dist.new_group([1], group_desc="alone")
    observer = ExecutionTraceObserver().register_callback(f"{folder}/execution{rank}.json")
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, execution_trace_observer=observer) as seen:
        profiled_calls(torch, dist, rank)
        if rank == 1:
            dist.all_reduce(torch.ones(1), group=group)
    seen.export_chrome_trace(f"{folder}/trace{rank}.json")
    events = [event["args"] for event in json.loads(Path(f"{folder}/trace{rank}.json").read_text())["traceEvents"]
              if event.get("name") == "record_param_comms"]
    if rank == 1:
        alone = [event for event in events if event["Process Group Description"] == "alone"]
        assert alone[0]["Global rank start"] == 1 and alone[0]["Group size"] == 1, alone
        return
    events = [event for event in events if event["Collective name"] != "wait"]
    assert [event["Collective name"] for event in events] == list(CALLS), events
    for event in events:
        into, out, others = CALLS[event["Collective name"]]
        assert (event["In msg nelems"], event["Out msg nelems"]) == (into, out), event
        assert {"Group size": 2, "Global rank start": 0, "Global rank stride": 1, "Process Group Name": "0",
                "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1]"}.items() <= event.items(), event
        assert others.items() <= event.items(), event
    nodes = [node["inputs"]["values"] for node in json.loads(Path(f"{folder}/execution0.json").read_text())["nodes"]
             if node["name"] == "record_param_comms"]
    first, gathered = nodes[0], next(values for values in nodes if "_allgather_base" in values)
    # The tensors, the sequence number, the group, the rank, the call, splits, and the group's ranks: start, stride, size.
    assert len(first) == 10 and first[1:5] == [[1, False], ["0", "default_pg"], 0, "allreduce"], first
    assert first[5:] == [[], [], 0, 1, 2] and gathered[1] == [3, False], (first, gathered)


def calls_of_all_kinds(torch, dist, rank, ranks):
    data = torch.ones(4)
    pair = dist.new_group([0, 1])
    dist.all_reduce(data)
    dist.reduce(data, 1)
    dist.all_gather([torch.zeros(4) for _ in range(ranks)], data)
    dist.all_gather([torch.zeros(r + 1) for r in range(ranks)], torch.ones(rank + 1))
    dist.reduce_scatter(torch.zeros(4), [data] * ranks)
    dist.reduce_scatter(torch.zeros(rank + 1), [torch.zeros(r + 1) for r in range(ranks)])
    dist.all_to_all(list(torch.zeros(ranks, 4)), [data] * ranks)
    splits = [3 if 0 in (rank, r) else 1 for r in range(ranks)]
    dist.all_to_all_single(torch.zeros(sum(splits)), torch.zeros(sum(splits)), splits, splits)
    dist.gather(data, [torch.zeros(4) for _ in range(ranks)] if rank == 0 else None)
    dist.scatter(data, [torch.zeros(4) for _ in range(ranks)] if rank == 1 else None, 1)
    dist.all_reduce(torch.sparse_coo_tensor([[rank]], [2.0], (ranks,)))
    if rank < 2:
        dist.all_reduce(torch.ones(3), group=pair)
    with dist.distributed_c10d._coalescing_manager(device=torch.device("cpu")):
        dist.all_reduce(data)
        dist.all_reduce(torch.ones(7))
    try:
        dist.all_gather_into_tensor(torch.zeros(1), data)  # refused before it begins: not a call
    except ValueError:
        pass


def a_clean_job_has_no_mismatch(torch, dist, rank, folder):
    import tandem

    calls_of_all_kinds(torch, dist, rank, dist.get_world_size())
    pending = dist.all_reduce(torch.ones(3), async_op=True)
    dist.barrier()
    limit = time.monotonic() + LIMIT_S
    while True:  # a barrier does not wait for calls before it; the record itself finds out that one has ended
        record = tandem.dump_flight_recorder(f"{folder}/dump_{rank}")
        states = {entry["state"] for entry in pickle.loads(Path(record).read_bytes())["entries"]}
        if states == {"completed"} or time.monotonic() > limit:
            break
        time.sleep(0.01)
    pending.wait()
    pending = None
    dist.barrier()


def messages_are_recorded(torch, dist, rank, folder):
    import tandem

    other, data = 1 - rank, torch.ones(2, 2)
    dist.all_reduce(data)
    for turn in (dist.send, dist.recv) if rank == 0 else (dist.recv, dist.send):
        turn(data, other)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, data, other), dist.P2POp(dist.irecv, data.clone(), other)]):
        work.wait()
    if rank == 0:
        dist.recv(data)
    else:
        dist.send(data, 0)
    early = dist.irecv(data, other)
    tandem.dump_flight_recorder(f"{folder}/dump_{rank}")
    dist.barrier()
    dist.send(torch.ones(2, 2), other)
    early.wait()
    record = pickle.loads(Path(f"{folder}/dump_{rank}").read_bytes())
    assert record["version"] == "2.10" and record["pg_config"] == {
        "0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}, record
    send, recv = f"nccl:send {rank}->{other}", f"nccl:recv {rank}<-{other}"
    once = [send, recv] if rank == 0 else [recv, send]
    expected = [("nccl:all_reduce", 1, 0, 1), (once[0], 1, 1, 2), (once[1], 1, 2, 3), (send, 1, 3, 4), (recv, 1, 3, 5),
                ("nccl:coalesced", 1, 3, 6), (recv if rank == 0 else send, 1, 4, 7), (recv, 1, 5, 8)]
    found = [(entry["profiling_name"], entry["collective_seq_id"], entry["p2p_seq_id"], entry["op_id"])
             for entry in record["entries"]]
    assert found == expected, found
    for number, entry in enumerate(record["entries"]):
        is_last = number == len(expected) - 1
        assert entry["record_id"] == number and entry["is_p2p"] == (number > 0), entry
        assert entry["state"] == ("started" if is_last else "completed"), entry
        assert entry["process_group"] == ("0", "default_pg") and entry["timeout_ms"] in (0, LIMIT_S * 1000), entry
        if "coalesced" not in entry["profiling_name"]:
            assert entry["input_sizes"] == entry["output_sizes"] == [[2, 2]] and entry["input_dtypes"] == ["Float"], entry
        times = [entry[f"time_{when}_ns"] for when in ("created", "discovered_started", "discovered_completed")]
        assert abs(times[0] / 1e9 - time.time()) < 60 and times[0] <= times[1], entry
        assert times[2] is None if is_last else times[1] <= times[2], entry


def the_last_calls_are_kept_with_their_stacks(torch, dist, rank, folder):
    import tandem

    for count in range(1, 8):
        dist.all_reduce(torch.ones(count))
    entries = pickle.loads(Path(tandem.dump_flight_recorder()).read_bytes())["entries"]
    assert Path(f"{folder}/dump_{rank}").exists()
    assert [(entry["record_id"], entry["input_sizes"]) for entry in entries] == [(n, [[n + 1]]) for n in range(3, 7)], entries
    for entry in entries:
        assert any(frame["name"] == "the_last_calls_are_kept_with_their_stacks" and frame["filename"].endswith("observed.py")
                   for frame in entry["frames"]), entry["frames"]


def fails(dist, call):
    try:
        call()
    except dist.DistBackendError:
        return
    raise AssertionError("no failure")


def a_rank_that_stays_away_is_named(torch, dist, rank, folder):
    data = torch.ones(5)
    dist.all_reduce(data)
    if rank == 1:  # notified through the store
        limit = time.monotonic() + LIMIT_S
        while not Path(f"{folder}/dump_1").exists() and time.monotonic() < limit:
            time.sleep(0.1)
    else:
        fails(dist, lambda: dist.all_reduce(data))


def another_call_is_named(torch, dist, rank, folder):
    data = torch.ones(6)
    dist.all_reduce(data)
    fails(dist, lambda: dist.all_reduce(data) if rank == 0 else dist.all_gather_into_tensor(torch.zeros(12), data))


def is_clean(calls):
    assert len(calls) > 10 and all(call.pass_check and not call.missing_ranks for call in calls), calls
    assert {call.collective_state for call in calls} == {"completed"}, calls


def rank_1_is_missing(calls):
    assert [call.missing_ranks for call in calls] == [None, {1}] and calls[1].collective_name == "nccl:all_reduce", calls
    assert calls[1].collective_seq_id == 2 and calls[1].collective_state == "started", calls


def rank_1_has_called_another(calls):
    assert [call.pass_check for call in calls] == [True, False], calls
    other = calls[1].mismatch_collectives[1]
    assert other.collective_name == "nccl:_all_gather_base", other
    assert other.type_of_mismatch.state.name == "COLLECTIVE_TYPE_MISMATCH", other.type_of_mismatch


FAILING = (a_rank_that_stays_away_is_named, another_call_is_named)
TESTS = [(a_profile_has_each_call, 2, None),
         (messages_are_recorded, 2, None),
         (the_last_calls_are_kept_with_their_stacks, 2, None),
         (a_clean_job_has_no_mismatch, 2, is_clean),
         (a_clean_job_has_no_mismatch, 3, is_clean),
         (a_rank_that_stays_away_is_named, 2, rank_1_is_missing),
         (another_call_is_named, 2, rank_1_has_called_another)]


def rank_body(test, ranks, rank, folder):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    os.environ["TORCH_FR_DUMP_TEMP_FILE"] = f"{folder}/dump_"
    if test is the_last_calls_are_kept_with_their_stacks:
        os.environ.update(TORCH_FR_BUFFER_SIZE="4", TORCH_INCLUDE_STACK_TRACE="1")
    dist.init_process_group("tandem", init_method=f"file://{folder}/../meet", rank=rank, world_size=ranks,
                            timeout=datetime.timedelta(seconds=3 if test in FAILING else LIMIT_S))
    test(torch, dist, rank, folder)
    dist.destroy_process_group()


def analysed(folder):
    """What torchfrtrace makes of the dumps."""
    from torch.distributed.flight_recorder.components import builder, config_manager, loader, utils

    utils.tabulate = builder.tabulate = lambda rows, headers=None: rows  # a package that need not be there
    options = config_manager.JobConfig().parse_args([str(folder), "--prefix", "dump_"])
    details, version = loader.read_dir(options)
    return builder.build_db(details, options, version).collectives


def run(test, ranks, judge):
    context = multiprocessing.get_context("forkserver")
    with tempfile.TemporaryDirectory(prefix="tandem-observed-") as top:
        folder = Path(top) / "seen"
        folder.mkdir()
        running = [context.Process(target=rank_body, args=(test, ranks, r, folder)) for r in range(ranks)]
        for process in running:
            process.start()
        for process in running:
            process.join(60)
        assert [process.exitcode for process in running] == [0] * ranks, [process.exitcode for process in running]
        if judge:
            judge(analysed(folder))


def main():
    multiprocessing.set_forkserver_preload(["torch.profiler", "torch.distributed"])
    names = sys.argv[1:] or [test.__name__ for test, _, _ in TESTS]
    for test, ranks, judge in TESTS:
        if test.__name__ in names:
            begun = time.monotonic()
            run(test, ranks, judge)
            print(f"{test.__name__}, {ranks} ranks: {time.monotonic() - begun:.1f} s", flush=True)


if __name__ == "__main__":
    main()
