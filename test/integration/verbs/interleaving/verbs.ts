/** The verbs as calls that judge their own answers: each guard of spec §3, stated a second time and independently. */
import { isDeepStrictEqual } from "node:util";
import type { AgentAddress } from "../../../../src/shared/protocol/keys.ts";
import { MAX_LIVE_AGENTS } from "../../../../src/shared/protocol/limits.ts";
import type { VerbInput } from "../../../../src/shared/redis/scripts.ts";
import { sentOf } from "../rig.ts";
import { agentIn, isHolder, make, must, numberIn, unchanged } from "./call.ts";
import type { AgentShot, Shot } from "./shot.ts";
import type { World } from "./world.ts";

/** `spawn`: at most ten live, one agent a request key, overdue exactly those without life key. */
export function* spawn(world: World, agent: AgentAddress, input: VerbInput<"spawn">) {
  return yield* make({
    name: "spawn",
    agent,
    make: () => world.rig.store.spawn(agent, input),
    judge(answer, before, after) {
      const known = world.requests.get(input.request_key);
      if (answer.status === "spawned") {
        must(known === undefined, "a known request key spawned", input);
        must(Object.keys(before.live).length < MAX_LIVE_AGENTS, "an eleventh agent was admitted");
        must(after.live[agent.uid] !== undefined, "a spawned agent is not live", agent);
        world.requests.set(input.request_key, { uid: agent.uid, digest: input.digest });
        world.agents.set(agent.uid, agent);
        return;
      }
      unchanged(before, after);
      if (answer.status === "same")
        must(
          known?.uid === answer.uid && known.digest === input.digest,
          "same for what was not",
          input,
          known,
        );
      else if (answer.status === "conflict")
        must(known !== undefined && known.digest !== input.digest, "conflict without one", input, known);
      else if (answer.status === "quota") judgeQuota(answer.overdue, before, after);
      else must(false, "another profile, where none is registered", answer);
    },
  });
}

function judgeQuota(overdue: readonly string[], before: Shot, after: Shot): void {
  const live = Object.keys(before.live);
  must(live.length >= MAX_LIVE_AGENTS, "refused for quota below it", before.live);
  const gone = (shot: Shot) => live.filter((uid) => shot.agents.get(uid)?.lifeMs === -2);
  for (const uid of overdue) must(live.includes(uid), "overdue, but not live", uid);
  for (const uid of gone(before)) must(overdue.includes(uid), "gone, but not overdue", uid);
  for (const uid of overdue)
    must((before.agents.get(uid)?.lifeEndMs ?? 0) <= after.nowMs, "overdue, but alive", uid);
}

/** `send`: accepted once, whatever became of the agent's life key. */
export function* send(world: World, agent: AgentAddress, messageId: string, text: string) {
  return yield* make({
    name: "send",
    agent,
    make: () => world.rig.store.send(agent, sentOf(text, messageId)),
    judge(answer, before, after) {
      const [was, is] = [agentIn(before, agent), agentIn(after, agent)];
      const known = world.texts.get(messageId);
      if (answer.status !== "queued" && answer.status !== "delivered") {
        unchanged(before, after);
        if (answer.status === "same") must(known === text, "same for another message", messageId);
        if (answer.status === "conflict") must(known !== undefined && known !== text, "conflict without one");
        if (answer.status === "ended") must(was.record.status === "ended", "ended for a live agent", was);
        if (answer.status === "unknown")
          must(was.record.status === undefined, "unknown for a known agent", was);
        return;
      }
      must(known === undefined, "a known message was accepted again", messageId);
      must(was.record.status !== "ended", "an ended agent accepted a message", was);
      must(
        (answer.status === "queued") === (was.record.status === "idle"),
        "queued is for idle ones",
        was,
        answer,
      );
      must(
        isDeepStrictEqual(is.inbox.slice(0, -1), was.inbox),
        "the inbox lost messages",
        was.inbox,
        is.inbox,
      );
      if (answer.status === "queued") {
        must(is.record.status === "queued", "queued, but it does not stand as queued", is);
        must(numberIn(is, "run") === numberIn(was, "run") + 1, "a run that is not the next", was, is);
        must(numberIn(is, "wake") === numberIn(was, "wake") + 1, "a wake that is not new", was, is);
      }
      world.texts.set(messageId, text);
      world.accepted.set(messageId, agent.uid);
    },
  });
}

/** `claim`: only what nobody holds; each claim a new epoch, the same claim the same; two barren deaths only alone. */
export function* claim(world: World, agent: AgentAddress, claimId: string, isolation?: "own_worker") {
  return yield* make({
    name: "claim",
    agent,
    make: () => world.rig.store.claim(agent, { claim_id: claimId, worker: "w", isolation }),
    judge(answer, before, after) {
      const was = agentIn(before, agent);
      const { status } = was.record;
      const heldUntil = numberIn(was, status === "queued" ? "not_before" : "lease_until");
      if (answer.status === "suspect") {
        must(!isolation && heldUntil <= after.nowMs, "sent away without reason", was);
        must(agentIn(after, agent).record.status === "queued", "sent away, but not queued", was);
        return judgeDeaths(world, agent, before, after, 2);
      }
      if (answer.status !== "claimed" && answer.status !== "crashed") {
        unchanged(before, after);
        must(
          status !== "running" || was.record.claim_id !== claimId,
          "the same claim was refused",
          was,
          answer,
        );
        if (answer.status === "held") must(heldUntil > before.nowMs, "held by nobody", was, before.nowMs);
        if (answer.status === "too_old") must(tooOldAt(was) <= after.nowMs, "refused before its age", was);
        if (answer.status === "nothing")
          must(status === "idle" || status === "ended" || status === "waiting", "there was work", was);
        return;
      }
      if (was.record.claim_id === claimId && status === "running") {
        must(`${answer.epoch}` === was.record.epoch, "the same claim got another epoch", was, answer);
        return unchanged(before, after);
      }
      must(status === "queued" || status === "running", "claimed what has no work", was);
      must(heldUntil <= after.nowMs, "claimed what is held", was, after.nowMs);
      must(tooOldAt(was) > before.nowMs, "claimed what must end for its age", was, before.nowMs);
      must(Number(answer.epoch) > numberIn(was, "epoch"), "a claim must raise the epoch", was, answer);
      must(isHolder(agentIn(after, agent), Number(answer.epoch)), "claimed, but it does not hold the agent");
      const deaths = judgeDeaths(world, agent, before, after);
      must((answer.status === "crashed") === deaths > 2, "lost before it died alone", was, answer);
      must(deaths !== 2 || isolation !== undefined, "a suspect was claimed beside others", was, answer);
      if (isolation) world.claimedAlone.add(`${agent.uid} ${answer.epoch}`);
    },
  });
}

/** A death is counted once, by the claim that finds it, and a third one only of a run that was claimed alone. */
function judgeDeaths(
  world: World,
  agent: AgentAddress,
  before: Shot,
  after: Shot,
  expected?: number,
): number {
  const was = agentIn(before, agent);
  const died = was.record.status === "running" && was.record.committed !== "1";
  const survived = was.record.status === "running" && !died;
  const counts =
    died && (numberIn(was, "crashes_without_progress") < 2 || wasAlone(world, agent, was.record.epoch));
  const deaths = survived ? 0 : numberIn(was, "crashes_without_progress") + (counts ? 1 : 0);
  must(
    numberIn(agentIn(after, agent), "crashes_without_progress") === deaths,
    "deaths are miscounted",
    was,
    deaths,
  );
  must(expected === undefined || deaths === expected, "sent away without reason", was);
  return deaths;
}

function wasAlone(world: World, { uid }: AgentAddress, epoch = ""): boolean {
  return world.claimedAlone.has(`${uid} ${epoch}`);
}

/** `renew`: the holder's alone. */
export function* renew(world: World, agent: AgentAddress, epoch: number) {
  return yield* make({
    name: "renew",
    agent,
    make: () => world.rig.store.renew(agent, { epoch, running_ms: 1 }),
    judge: (answer, before, after) => {
      must(
        (answer.status === "ok") === isHolder(agentIn(before, agent), epoch),
        "renew is the holder's",
        answer,
      );
      if (answer.status === "stale") return unchanged(before, after);
      must(answer.inbox === agentIn(before, agent).inbox.length, "renew misreports the inbox", answer);
    },
  });
}

/** `append`: all or nothing, by the holder, consuming exactly what the cursor says. */
export function* append(world: World, agent: AgentAddress, input: VerbInput<"append">) {
  return yield* make({
    name: "append",
    agent,
    make: () => world.rig.store.append(agent, input),
    judge(answer, before, after) {
      const [was, is] = [agentIn(before, agent), agentIn(after, agent)];
      must((answer.status !== "stale") === isHolder(was, input.epoch), "append is the holder's", answer, was);
      const differing = (input.entries ?? []).filter(([key, json]) => (was.log[key] ?? json) !== json);
      must(
        (answer.status === "conflict") === (isHolder(was, input.epoch) && differing.length > 0),
        "conflict",
        answer,
      );
      const isSame = (input.entries ?? []).every(([key, json]) => was.log[key] === json);
      must((answer.status === "same") === (isHolder(was, input.epoch) && isSame), "same", answer, was);
      if (answer.status !== "appended") {
        unchanged(before, after);
        return;
      }
      for (const [key, json] of input.entries ?? [])
        must(is.log[key] === json, "an entry was not written", key);
      must(after.fresh.length === (input.interim ? 1 : 0), "an interim message is one entry", after.fresh);
      const consumed = Math.max(0, (input.consume_to ?? 0) - numberIn(was, "inbox_read"));
      must(
        isDeepStrictEqual(is.inbox, was.inbox.slice(consumed)),
        "the wrong messages were consumed",
        was,
        is,
      );
    },
  });
}

/** `release`: the holder's alone, once. */
export function* release(world: World, agent: AgentAddress, epoch: number, delay_ms: number) {
  return yield* make({
    name: "release",
    agent,
    make: () => world.rig.store.release(agent, { epoch, delay_ms, running_ms: 1, attempts: 0 }),
    judge(answer, before, after) {
      const was = agentIn(before, agent);
      if (answer.status === "released" && isHolder(was, epoch)) {
        return must(agentIn(after, agent).record.status === "queued", "released, but not queued");
      }
      unchanged(before, after);
      const again = was.record.status === "queued" && was.record.released_epoch === `${epoch}`;
      must((answer.status === "released") === again, "release is the holder's", answer, was);
    },
  });
}

/** `settle`: by the holder, by the parent, or by a sweeper when it is due; the first one wins. */
export function* settle(world: World, agent: AgentAddress, input: VerbInput<"settle">) {
  return yield* make({
    name: `settle by ${input.authority}`,
    agent,
    make: () => world.rig.store.settle(agent, input),
    judge(answer, before, after) {
      const was = agentIn(before, agent);
      const ended = was.record.status === "ended";
      const mayWorker = input.authority === "worker" && isHolder(was, input.epoch ?? 0);
      if (answer.status !== "settled") {
        unchanged(before, after);
        if (answer.status === "same")
          must(
            ended || (input.authority === "worker" && was.record.settled_epoch === `${input.epoch ?? 0}`),
            "same",
            was,
          );
        if (answer.status === "more")
          must(mayWorker && input.natural === true && was.inbox.length > 0, "more", was);
        if (answer.status === "stale") {
          must(input.authority === "worker" && !mayWorker && !ended, "stale", was, input);
          must(was.record.settled_epoch !== `${input.epoch ?? 0}`, "stale for the one who settled", was);
        }
        if (answer.status === "not_due") must(!isDue(input, agent, before), "not_due, but it was", was);
        return;
      }
      must(!ended, "an ended agent was settled again", was);
      must(after.fresh.length === 1, "a settle is one entry", after.fresh);
      const is = agentIn(after, agent);
      if (input.authority === "worker") {
        must(mayWorker, "settled by somebody who is not the holder", was, input);
        must(!(input.natural && was.inbox.length > 0), "a natural end with an unread message", was);
        const next = input.target === "ended" ? "ended" : was.inbox.length > 0 ? "queued" : "idle";
        must(is.record.status === next, `settled, but not ${next}`, is);
        return;
      }
      must(is.record.status === "ended", "settled by authority, but not ended", is);
      must(numberIn(is, "epoch") === numberIn(was, "epoch") + 1, "authority must bump the epoch", was, is);
      if (input.authority === "sweeper") judgeDue(input, agent, before, after);
    },
  });
}

function isDue(input: VerbInput<"settle">, agent: AgentAddress, shot: Shot): boolean {
  const is = agentIn(shot, agent);
  if (input.authority !== "sweeper") return true;
  if (input.stop_reason === "idle") return is.record.status === "idle" && is.lifeMs === -2;
  return tooOldAt(is) <= shot.nowMs;
}

function tooOldAt(is: AgentShot): number {
  const since = numberIn(is, "unanswered_since");
  return since > 0 ? since + numberIn(is, "max_age_ms") : Number.POSITIVE_INFINITY;
}

function judgeDue(input: VerbInput<"settle">, agent: AgentAddress, before: Shot, after: Shot): void {
  const was = agentIn(before, agent);
  if (input.stop_reason === "idle") {
    must(was.record.status === "idle", "idle death of an agent that is not idle", was);
    must(was.lifeEndMs <= after.nowMs, "idle death before its time", was, after.nowMs);
  } else {
    must(tooOldAt(was) <= after.nowMs, "too old before its time", was);
  }
}

/** `requeue`: once a wake, and only when it is due. */
export function* requeue(world: World, agent: AgentAddress, expectedWake: number) {
  return yield* make({
    name: "requeue",
    agent,
    make: () => world.rig.store.requeue(agent, { expected_wake: expectedWake }),
    judge(answer, before, after) {
      if (answer.status === "not_due") return unchanged(before, after);
      const was = agentIn(before, agent);
      must(numberIn(was, "wake") === expectedWake, "woken for a wake that is replaced", was);
      must(numberIn(was, "deadline") <= after.nowMs, "woken early", was, after.nowMs);
      must(was.record.status === "queued" || was.record.status === "running", "woken for nothing", was);
      must(answer.wake === expectedWake + 1, "a wake that is not new", answer);
    },
  });
}

/** `overdue`: looking changes nothing. */
export function* overdue(world: World, agent: AgentAddress) {
  return yield* make({
    name: "overdue",
    agent,
    make: () => world.rig.store.overdue(agent),
    judge: (_answer, before, after) => unchanged(before, after),
  });
}

/** `finish`: only runs that are coming or going on, or wait; those that wait are queued with a new wake, without delay. */
export function* finish(world: World, agent: AgentAddress) {
  return yield* make({
    name: "finish",
    agent,
    make: () => world.rig.store.finish(agent),
    judge(answer, before, after) {
      const [was, is] = [agentIn(before, agent), agentIn(after, agent)];
      if (answer.status !== "finishing") return unchanged(before, after);
      must(is.record.finish === "1", "finishing, but nothing says so", is);
      const { status } = was.record;
      const isQueued = status === "waiting" || status === "queued";
      must(is.record.status === (isQueued ? "queued" : status), "finish changed the status", was, is);
      const isWoken = numberIn(is, "wake") === numberIn(was, "wake") + 1;
      must(isWoken || is.record.wake === was.record.wake, "a wrong wake", was, is);
      const notBeforeMs = status === "queued" ? numberIn(was, "not_before") : 0;
      if (isWoken) {
        must(status === "waiting" || notBeforeMs > before.nowMs, "woken, but it waits for nothing", was, is);
        must(is.record.not_before === undefined, "woken, but it still waits", is);
      } else must(status !== "waiting" && notBeforeMs <= after.nowMs, "it waits, but was not woken", was, is);
      must(
        `${answer.wake ?? ""}` === (is.record.status === "queued" ? is.record.wake : ""),
        "another wake",
        answer,
        is,
      );
    },
  });
}
