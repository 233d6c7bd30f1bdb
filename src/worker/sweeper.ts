/**
 * The sweeper: looks at every agent whose deadline has come and does what is due. Any number of them may run, in every
 * worker and API process; the records decide, so two that look at one agent do no harm.
 */
import type { Clock } from "../shared/clock.ts";
import { messageOf } from "../shared/errors.ts";
import type { Logger } from "../shared/logger.ts";
import { type AgentAddress, wakeOf } from "../shared/protocol/keys.ts";
import { defaultAnswerTo } from "../shared/protocol/question.ts";
import type { AgentStore, SettleInput } from "../shared/redis/agent-store.ts";
import type { DeadlineSet, Due } from "../shared/redis/deadline-set.ts";
import { IDLE_DEATH } from "../shared/redis/verbs.ts";
import type { WakeQueue } from "../shared/redis/wake-queue.ts";

/**
 * How often a running sweeper ticks, on average: a quarter more or less, so that of two that look at the same agents, one of
 * them of an older version, the same one is not always first.
 */
const TICK_MS = 1_000;
/** Agents looked at in one round of a tick. */
const BATCH = 100;
/** An agent that a sweeper has taken is hidden from the others this long. */
const HIDDEN_MS = 2_000;

/** What a sweeper works on. */
export interface SweeperContext {
  store: AgentStore;
  deadlines: DeadlineSet;
  wakes: WakeQueue;
  clock: Clock;
  /** A number in [0, 1); default `Math.random`. */
  random?: () => number;
  logger: Logger;
}

/** See the module's sentence. */
export interface Sweeper {
  /** Looks at everything that is due now; resolves to the number of agents looked at. */
  tick(): Promise<number>;
  /** Ticks every second. Idempotent. */
  start(): void;
  /** Resolves when no tick is going on. Idempotent. */
  stop(): Promise<void>;
}

/** A sweeper, not started. */
export function createSweeper(context: SweeperContext): Sweeper {
  const { deadlines, clock, random = Math.random, logger } = context;
  let stopping: AbortController | undefined;
  let running = Promise.resolve();

  /** One agent that cannot be looked at must not keep the others from it; it comes due again. */
  const lookSafely = (due: Due) =>
    look(context, due).catch((error: unknown) =>
      logger.warn({ member: due.member, problem: messageOf(error) }, "Sweeper could not look; trying again"),
    );
  const tick = async () => {
    let looked = 0;
    for (;;) {
      const due = await deadlines.due(BATCH, HIDDEN_MS);
      await Promise.all(due.map(lookSafely));
      looked += due.length;
      if (due.length < BATCH || stopping?.signal.aborted) return looked;
    }
  };
  const sweep = async (signal: AbortSignal) => {
    while (!signal.aborted) {
      await tick().catch((error: unknown) =>
        logger.warn({ problem: messageOf(error) }, "Sweep failed; trying again"),
      );
      await clock.sleep(TICK_MS * (0.75 + random() / 2), signal);
    }
  };
  return {
    tick,
    start() {
      if (stopping) return;
      stopping = new AbortController();
      running = sweep(stopping.signal);
    },
    async stop() {
      stopping?.abort();
      await running;
      stopping = undefined;
    },
  };
}

const DEATH_OF_AGE: SettleInput = {
  by: { authority: "sweeper" },
  target: "ended",
  endedReason: "failed",
  status: "failed",
  stopReason: "max_age",
};

async function look(context: SweeperContext, due: Due): Promise<void> {
  const { store, deadlines } = context;
  const { address } = due;
  if (!address) return deadlines.forget(due);
  const found = await store.overdue(address);
  switch (found.status) {
    case "unknown":
    case "ended":
      return deadlines.forget(due);
    case "not_due":
      return deadlines.move(due, Number(found.deadline));
    case "idle_over":
      return settle(context, due, address, IDLE_DEATH);
    case "max_age_over":
      return settle(context, due, address, DEATH_OF_AGE);
    case "answer_due":
      return answerInstead(context, due, address);
    case "wake_due":
      return wake(context, due, address, Number(found.wake), found.agent_id);
  }
}

async function settle(
  { store, deadlines }: SweeperContext,
  due: Due,
  address: AgentAddress,
  how: SettleInput,
) {
  const answer = await store.settle(address, how);
  if (answer.status === "not_due") return deadlines.move(due, Number(answer.deadline));
  return deadlines.forget(due);
}

/** The defaults of all open questions; whatever comes between is seen when the agent comes due again. */
async function answerInstead(
  { store, deadlines, wakes }: SweeperContext,
  due: Due,
  address: AgentAddress,
): Promise<void> {
  const record = await store.record(address);
  for (const question of record?.questions ?? []) {
    const { question_id: questionId } = question;
    const answer = await store.answer(address, {
      by: "sweeper",
      questionId,
      text: defaultAnswerTo(question),
    });
    if (answer.status === "not_due") return deadlines.move(due, Number(answer.deadline));
    if (answer.status !== "queued" || !record) continue;
    await deadlines.move(due, Number(answer.deadline));
    await wakes.add(wakeOf(address, record.agent_id, answer.wake));
  }
}

async function wake(
  { store, deadlines, wakes }: SweeperContext,
  due: Due,
  address: AgentAddress,
  newest: number,
  agentId: string,
): Promise<void> {
  const alive = await wakes.isAlive({ uid: address.uid, wake: newest });
  const answer = await store.rewake(address, newest, alive);
  if (answer.status === "not_due") return;
  await deadlines.move(due, Number(answer.deadline));
  if (answer.status === "wake") {
    await wakes.add(wakeOf(address, agentId, answer.wake));
  }
}
