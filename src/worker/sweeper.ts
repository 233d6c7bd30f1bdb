/**
 * The sweeper checks every agent whose deadline has come and does what is due. One runs in every worker. The records decide,
 * so two sweepers that check the same agent do no harm.
 */
import type { Clock } from "../shared/clock.ts";
import { isUnreadable, messageOf } from "../shared/errors.ts";
import type { Logger } from "../shared/logger.ts";
import { problemLog } from "../shared/problem-log.ts";
import { type AgentRecord, IDLE_EXPIRY } from "../shared/protocol/agent.ts";
import {
  type AgentAddress,
  addressOfParent,
  agentOf,
  deadlineMember,
  type ParentAddress,
  replyIdOf,
  wakeOf,
} from "../shared/protocol/keys.ts";
import { answerEntry } from "../shared/protocol/log.ts";
import { defaultAnswerTo } from "../shared/protocol/message.ts";
import { NOTHING_DONE, type ReplyStatus, type StopReason } from "../shared/protocol/reply.ts";
import type { AgentStore, WaitingJob } from "../shared/redis/agent-store.ts";
import {
  type DeadlineSet,
  type Due,
  HIDDEN_MS,
  type NextCheck,
  nextCheckDelayMs,
} from "../shared/redis/deadlines.ts";
import type { VerbAnswer, VerbInput } from "../shared/redis/scripts.ts";
import type { WakeQueue } from "../shared/redis/wake-queue.ts";
import type { WorkerDirectory } from "../shared/redis/workers.ts";
import type { Metrics } from "./observe/metrics.ts";
import { createListTrust, type ListTrust } from "./worker-list.ts";

/**
 * Average time between ticks, ms. Each is up to a quarter longer or shorter, so that neither version is always first
 * during an upgrade.
 */
const TICK_MS = 1_000;
/** Agents on one page of a tick. Their checks keep Redis busy for a millisecond or two; other commands wait that long. */
const BATCH = 50;
/**
 * Rest after a full page, ms: Redis also serves others. A sweeper makes some 2,500 checks a second at most; 100,000 queued
 * agents need 1,667.
 */
const PAGE_REST_MS = 15;

/** Dependencies of a sweeper. */
export interface SweeperContext {
  store: Pick<
    AgentStore,
    "waitingJob" | "overdue" | "settle" | "record" | "answer" | "requeue" | "orphans" | "finish" | "timing"
  >;
  deadlines: Pick<DeadlineSet, "due" | "move" | "hint">;
  wakes: Pick<WakeQueue, "add" | "isAlive">;
  workers: Pick<WorkerDirectory, "list">;
  clock: Clock;
  /** A number in [0, 1); default `Math.random`. */
  random?: () => number;
  logger: Logger;
  /** Counts the runs that it ends; absent: they are logged, not counted. */
  metrics?: Pick<Metrics, "ended"> | undefined;
}

/** See the module's header. */
export interface Sweeper {
  /** Checks all agents that are due now; resolves to the number of agents checked. */
  tick(): Promise<number>;
  /** Ticks every second. Idempotent. */
  start(): void;
  /** Ends no run for want of a tool before all workers have had time to announce themselves. */
  distrustList(): void;
  /** Resolves when no tick is running. Idempotent. */
  stop(): Promise<void>;
}

/** Creates a sweeper, not started. */
export function createSweeper(context: SweeperContext): Sweeper {
  const { deadlines, clock, random = Math.random, logger } = context;
  const tellFailed = failedChecksLog(context);
  const ended = endedRunsLog(context);
  const trust = createListTrust(clock, context.store.timing.toolsMs);
  let stopping: AbortController | undefined;
  let running = Promise.resolve();

  const tick = async () => {
    let checked = 0;
    for (;;) {
      const due = await deadlines.due(BATCH, HIDDEN_MS);
      if (due[0]) trust.tell(due[0].nowMs);
      await deadlines.move(await checkPage({ ...context, trust, tellFailed, ended }, due));
      checked += due.length;
      if (due.length < BATCH) return checked;
      await clock.sleep(PAGE_REST_MS, stopping?.signal);
      if (stopping?.signal.aborted) return checked;
    }
  };
  const failures = problemLog(logger, "Sweep failed; trying again");
  const sweep = async (signal: AbortSignal) => {
    while (!signal.aborted) {
      await tick().then(failures.over, (error: unknown) => failures.tell(messageOf(error)));
      await clock.sleep(TICK_MS * (0.75 + random() / 2), signal);
    }
  };
  return {
    tick,
    distrustList: trust.begin,
    start() {
      if (stopping) return;
      stopping = new AbortController();
      trust.begin();
      running = sweep(stopping.signal);
    },
    async stop() {
      stopping?.abort();
      await running;
      stopping = undefined;
    },
  };
}

/** Ends an agent whose run came to nothing, with a sentence that says why. */
function failedEnd(stop_reason: "max_age" | "tools_missing", why: string): VerbInput<"settle"> {
  return {
    ...{ authority: "sweeper", target: "ended", ended_reason: "failed", status: "failed", stop_reason },
    ...{ progress: NOTHING_DONE, failure: JSON.stringify(why) },
  };
}

const MAX_AGE_END = failedEnd(
  "max_age",
  "A message of its parent waited for an answer as long as it may. Does a worker run, and does the provider answer?",
);

const toolsMissingEnd = (needs: readonly string[] = []) =>
  failedEnd(
    "tools_missing",
    `No live worker has all that the run names: ${needs.join(", ")}. Start a worker that has them.`,
  );

const PARENT_GONE_END: VerbInput<"settle"> = {
  authority: "sweeper",
  target: "ended",
  ended_reason: "destroyed",
  status: "cancelled",
  stop_reason: "parent_gone",
};

/** A check that failed. */
interface FailedCheck {
  readonly member: string;
  readonly problem: string;
}

/** Dependencies of the checks of a page. */
type PageContext = SweeperContext & {
  trust: ListTrust;
  tellFailed: (failed: readonly FailedCheck[]) => void;
  ended: EndedRunsLog;
};

/** The log of the runs that a sweeper has ended. */
interface EndedRunsLog {
  /** Counts a run of the agent and gathers it for the log. */
  add(address: AgentAddress, how: VerbInput<"settle">): void;
  /** Logs those gathered: a line names {@link BATCH} agents at most, all with one reason. */
  tell(): void;
}

/**
 * Time without a failed check after which the log names a problem again, ms. A failed check is due again each second, to the
 * sweeper of any worker: a page without a failure does not mean that the problem is over.
 */
const QUIET_MS = 60_000;

/** Returns a function that logs the problems of a page's failed checks, one line for each kind until it is over. */
function failedChecksLog({ logger, clock }: SweeperContext): PageContext["tellFailed"] {
  const log = problemLog(logger, "Sweeper check failed; trying again");
  let failedAtMs = clock.monotonicMs();
  return (failed) => {
    if (failed.length === 0) return;
    const nowMs = clock.monotonicMs();
    if (nowMs - failedAtMs >= QUIET_MS) log.over();
    failedAtMs = nowMs;
    for (const { member, problem } of failed) log.tell(problem, { agents: failed.length, member });
  };
}

function endedRunsLog({ logger, metrics }: SweeperContext): EndedRunsLog {
  type Group = { readonly status: ReplyStatus; readonly agents: string[] };
  const gathered = new Map<StopReason, Group>();
  return {
    add(address, { status, stop_reason }) {
      metrics?.ended(status, stop_reason);
      const group: Group = gathered.get(stop_reason) ?? { status, agents: [] };
      group.agents.push(deadlineMember(address));
      gathered.set(stop_reason, group);
    },
    tell() {
      for (const [stop_reason, { status, agents }] of gathered)
        for (let at = 0; at < agents.length; at += BATCH) {
          const line = { status, stop_reason, agents: agents.slice(at, at + BATCH) };
          logger[status === "failed" ? "warn" : "info"](line, "Runs ended by a sweeper");
        }
      gathered.clear();
    },
  };
}

/** Checks a page of agents. A failed check does not stop the others: its agent comes due again. */
async function checkPage(context: PageContext, page: readonly Due[]): Promise<NextCheck[]> {
  const failed: FailedCheck[] = [];
  const onPage = { ...context, workers: listedOnce(context.workers) };
  const checkSafely = (due: Due) =>
    check(onPage, due).catch(
      (error: unknown) => void failed.push({ member: due.member, problem: messageOf(error) }),
    );
  const next = await Promise.all(page.map(checkSafely));
  context.tellFailed(failed);
  context.ended.tell();
  return next.filter((each) => each !== undefined);
}

/** Reads the list of workers at the first call only: a page may have many agents whose tools some workers lack. */
function listedOnce(workers: SweeperContext["workers"]): SweeperContext["workers"] {
  let listed: ReturnType<typeof workers.list> | undefined;
  return {
    list() {
      listed ??= workers.list();
      return listed;
    },
  };
}

/** Does what is due for one agent or parent. Resolves to the next check; undefined: the deadline set keeps its time. */
async function check(context: PageContext, due: Due): Promise<NextCheck | undefined> {
  const { address, parent } = due;
  if (parent) return checkParent(context, due, parent);
  if (!address) return never(due);
  const waiting = await context.store.waitingJob(address, due.nowMs);
  if (waiting) return checkJob(context, due, address, waiting);
  const found = await context.store.overdue(address);
  switch (found.status) {
    case "unknown":
    case "ended":
      return never(due);
    case "not_due":
      return { due, at: found.deadline };
    case "idle_over":
      return settle(context, due, address, IDLE_EXPIRY);
    case "max_age_over":
      return settle(context, due, address, MAX_AGE_END);
    case "tools_missing":
      if (await isOffered(context, found.needs_tools)) return checkJob(context, due, address, found);
      return settle(context, due, address, toolsMissingEnd(found.needs_tools));
    case "parent_gone":
      return settle(context, due, address, PARENT_GONE_END);
    case "must_finish":
      await finish(context, address, { agentId: found.agent_id, orphaned: true, because: PARENT_GONE });
      return undefined;
    case "answer_due":
      return answerInstead(context, due, address);
    case "lease_over":
      return requeue(context, address, found);
    case "queued":
      return checkJob(context, due, address, found);
  }
}

/** Checks an agent that waits for a worker; replaces a lost job. */
async function checkJob(
  context: SweeperContext,
  due: Due,
  address: AgentAddress,
  found: WaitingJob,
): Promise<NextCheck | undefined> {
  if (!(await context.wakes.isAlive({ uid: address.uid, wake: found.wake })))
    return requeue(context, address, found);
  return { due, at: due.nowMs + nextCheckDelayMs(found.waited_ms, context.store.timing) };
}

/** Checks whether a worker that lives, or may live, has all the tools a run needs, and only has not taken its wake yet. */
async function isOffered({ workers, trust }: PageContext, needs: readonly string[] = []): Promise<boolean> {
  if (!trust.isComplete()) return true;
  const live = await workers.list();
  return live.some(({ tools }) => needs.every((name) => tools.includes(name)));
}

const never = (due: Due): NextCheck => ({ due, at: undefined });

/** Applies the rule of its spawn to each agent of a parent whose lease has expired. */
async function checkParent(context: PageContext, due: Due, parent: ParentAddress): Promise<NextCheck> {
  const found = await context.store.orphans(addressOfParent(parent));
  if (found.status === "no_agents") return never(due);
  if (found.status === "gone")
    await Promise.all(found.uids.map((uid) => followParent(context, agentOf(parent, uid))));
  return { due, at: found.at };
}

/** Ends or finishes an agent whose parent is gone; its own deadline stays until its next check. */
async function followParent(context: PageContext, address: AgentAddress): Promise<void> {
  const found = await context.store.overdue(address);
  if (found.status === "parent_gone") await end(context, address, PARENT_GONE_END);
  else if (found.status === "must_finish")
    await finish(context, address, { agentId: found.agent_id, orphaned: true, because: PARENT_GONE });
}

const PARENT_GONE = "A parent is gone: its sub-agent is asked to report";
const NO_QUESTION = "A sub-agent waits, and no question of it can be read: it is asked to report";

/** Asks a run to report what it has, because its parent is gone or it will get no answer. */
async function finish(
  { store, deadlines, wakes, logger }: SweeperContext,
  address: AgentAddress,
  { agentId, orphaned, because }: { agentId: string; orphaned: boolean; because: string },
): Promise<void> {
  await deadlines.hint(address, store.timing.checkMs);
  const answer = await store.finish(address, { orphaned });
  if (answer.status !== "finishing") return;
  logger.info({ agent_id: agentId, parent_id: address.parentId }, because);
  if (answer.wake !== undefined) await wakes.add(wakeOf(address, agentId, answer.wake));
}

/** Ends an agent. Of all that try, the first one is answered `settled`: it tells of the run, if the agent had one. */
async function end(
  { store, ended }: PageContext,
  address: AgentAddress,
  how: VerbInput<"settle">,
): Promise<VerbAnswer<"settle">> {
  const answer = await store.settle(address, how);
  if (answer.status === "settled" && answer.reply_id === replyIdOf(address.uid, answer.run))
    ended.add(address, how);
  return answer;
}

async function settle(
  context: PageContext,
  due: Due,
  address: AgentAddress,
  how: VerbInput<"settle">,
): Promise<NextCheck> {
  const answer = await end(context, address, how);
  return answer.status === "not_due" ? { due, at: answer.deadline } : never(due);
}

/**
 * Answers all open questions with their defaults; changes made meanwhile are found when the agent comes due again. If no
 * question is readable, the run continues without answers: its worker tells the parent what it has, or that the record is
 * broken.
 */
async function answerInstead(
  context: SweeperContext,
  due: Due,
  address: AgentAddress,
): Promise<NextCheck | undefined> {
  const { store, wakes } = context;
  const record = await readRecord(store, address);
  if (record === "unreadable" || (record?.status === "waiting" && !record.questions?.length)) {
    await finish(context, address, { agentId: address.uid, orphaned: false, because: NO_QUESTION });
    return undefined;
  }
  let next: NextCheck | undefined;
  for (const question of record?.questions ?? []) {
    const answer = await store.answer(address, {
      authority: "sweeper",
      question_id: question.question_id,
      entry: answerEntry(defaultAnswerTo(question)),
    });
    if (answer.status === "not_due") return { due, at: answer.deadline };
    if (answer.status !== "queued" || !record) continue;
    next = { due, at: answer.deadline };
    await wakes.add(wakeOf(address, record.agent_id, answer.wake));
  }
  return next;
}

async function readRecord(
  store: SweeperContext["store"],
  address: AgentAddress,
): Promise<AgentRecord | "unreadable" | undefined> {
  try {
    return await store.record(address);
  } catch (error) {
    if (isUnreadable(error)) return "unreadable";
    throw error;
  }
}

/** Sends a hint first: another sweeper that found the job waiting may have set a later check. */
async function requeue(
  { store, deadlines, wakes }: SweeperContext,
  address: AgentAddress,
  { wake, agent_id }: { wake: number; agent_id: string },
): Promise<undefined> {
  await deadlines.hint(address, store.timing.checkMs);
  const answer = await store.requeue(address, { expected_wake: wake });
  if (answer.status === "wake") await wakes.add(wakeOf(address, agent_id, answer.wake));
}
