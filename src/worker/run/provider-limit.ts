/**
 * The provider's limit as a run meets it. A healthy provider costs nothing: each worker keeps the limit and the operator's
 * pause in memory and reads them once a second. While a limit holds, each call asks Redis first; then it waits, or its run
 * is handed back. The outcome of the call is written back.
 *
 * 1. No call begins on knowledge older than {@link PAUSE_KNOWN_MS}, unless Redis cannot be asked (3): a pause holds for
 *    every worker that long after it was written. A call that had to wait for a connection asks again as it begins.
 * 2. Waiting here is no attempt, no turn and no running time; a long wait does not hold the worker's slot.
 * 3. If the limiter cannot be asked, the call may begin, whatever was known before, a pause included: the limiter only
 *    spares the provider. The lease guards the run, and ends soon while Redis is away.
 * 4. The run that discovers a refused credential fails; a run that is refused for it afterwards asks again.
 * 5. A slot is kept no longer than the run's lease lives, however the call ends.
 * 6. While runs wait at a limiter that takes calls again, each worker wakes the next ones for which it has room: once a second,
 *    and when the last call of a run ends. Between two turns a run keeps its slot for a short time.
 */
import type { Clock } from "../../shared/clock.ts";
import { messageOf } from "../../shared/errors.ts";
import type { Logger } from "../../shared/logger.ts";
import { addressOfMember, deadlineMember } from "../../shared/protocol/keys.ts";
import type { Timing } from "../../shared/protocol/limits.ts";
import type { AgentStore } from "../../shared/redis/agent-store.ts";
import { PAUSE_KNOWN_MS, type Pause } from "../../shared/redis/pause.ts";
import type {
  Admission,
  LimiterAnswer,
  LimiterOutcome,
  LimiterRelease,
  ProviderLimiter,
} from "../../shared/redis/provider-limiter.ts";
import type { WakeQueue } from "../../shared/redis/wake-queue.ts";
import type { CallOutcome, FailureKind, Model, ModelFailure } from "../model/model.ts";
import type { Lease } from "./lease.ts";

/** Maximum rounds in which a worker wakes other runs in place of runs that make no call any more. */
const MOST_ROUNDS = 50;
/** Ends a wait without a call. */
const LEAVES: LimiterRelease = { outcome: "neutral", reason: "left" };
/** Interval between two reads of the limiters' state. */
const READ_EVERY_MS = 1_000;

/** Scope of a failure: every run of this provider (`shared`), or only this run (`own`). */
export type FailureScope = "shared" | "own";

/** Permit for a call now, or none: `wait` and ask again, or `paused` by an operator. */
export type CallPermit =
  | {
      status: "open";
      /** Asked as the call begins: false if the permit does not hold any more, and another one is needed. */
      holds(): boolean;
      release(outcome: CallOutcome): Promise<FailureScope> | FailureScope;
    }
  | { status: "wait"; waitMs: number; reason: string }
  | { status: "paused" };

/** Failures of the credential: every call with it fails until its owner fixes it. */
const DENIALS: ReadonlySet<FailureKind> = new Set(["authentication", "permission", "billing"]);
const LIMITS: ReadonlySet<FailureKind> = new Set(["rate_limited", "overloaded"]);

/** The admission of a call for which Redis was not asked. */
const UNASKED: Admission = { status: "open", enteredAt: 0, holdsSlot: false };

/** Dependencies of {@link ProviderLimit}. */
export interface ProviderLimitOptions {
  limiter: ProviderLimiter;
  /** Tells the other processes about a limit or a refusal at this limiter; a hint. */
  tellOthers(name: string): void;
  /**
   * Wakes a run in the line of a limiter; false if it makes no call any more. `onlyChecks`: changes nothing. See
   * {@link createEarlyWakes}.
   */
  wakeEarly(run: string, how?: { onlyChecks: boolean }): Promise<boolean>;
  pause: Pick<Pause, "state">;
  clock: Clock;
  timing: Timing;
  logger: Logger;
}

/** One process' knowledge of the limiters. */
export class ProviderLimit {
  readonly #options: ProviderLimitOptions;
  #unhealthy: ReadonlySet<string> = new Set();
  /** Limiters with a reported problem, and the time of the report; kept until a later read. */
  readonly #suspected = new Map<string, number>();
  #isPaused = false;
  #isReading = false;
  #readAtMs = Number.NEGATIVE_INFINITY;
  #timer: { cancel(): void } | undefined;
  #isRunning = false;

  constructor(options: ProviderLimitOptions) {
    this.#options = options;
  }

  /** Starts the reads. Idempotent. */
  start(): void {
    if (this.#isRunning) return;
    this.#isRunning = true;
    this.#read();
  }

  /** Stops the reads. Idempotent. */
  stop(): void {
    this.#isRunning = false;
    this.#timer?.cancel();
  }

  /**
   * Asks if the run of `lease` may call with the limiter `name`; answers synchronously if nothing is wrong. `resumes`: it has
   * made a call before.
   */
  acquire(name: string, lease: Lease, how?: { resumes: boolean }): CallPermit | Promise<CallPermit> {
    if (!this.#isHealthy(name)) return this.#ask(name, lease, how);
    return {
      status: "open",
      holds: () => this.#isHealthy(name),
      release: (outcome) => this.#releaseHealthy(name, lease, outcome),
    };
  }

  #isHealthy(name: string): boolean {
    const { clock } = this.#options;
    const isFresh = clock.monotonicMs() - this.#readAtMs < PAUSE_KNOWN_MS;
    return isFresh && !this.#isPaused && !this.#unhealthy.has(name) && !this.#suspected.has(name);
  }

  /** Notes a problem at the limiter `name`: calls ask Redis until the state is read again. */
  suspect(name: string): void {
    this.#suspected.set(name, this.#options.clock.monotonicMs());
  }

  #read(): void {
    const { limiter, pause, clock, logger } = this.#options;
    const sentAtMs = clock.monotonicMs();
    this.#timer = clock.timeout(READ_EVERY_MS, () => this.#read());
    // In an outage the reads would pile up in the connection.
    if (this.#isReading) return;
    this.#isReading = true;
    const read = Promise.all([limiter.list(), pause.state()]).then(
      ([limiters, paused]) => {
        this.#unhealthy = new Set(limiters.map(({ name }) => name));
        for (const [name, atMs] of this.#suspected) if (atMs < sentAtMs) this.#suspected.delete(name);
        this.#isPaused = paused !== undefined;
        this.#readAtMs = sentAtMs;
        for (const { name, until, waiting } of limiters)
          if (until === undefined && waiting > 0) this.#wakeNext(name);
      },
      (error: unknown) => logger.debug({ problem: messageOf(error) }, "Provider limiter not read"),
    );
    void read.finally(() => {
      this.#isReading = false;
    });
  }

  #wakeNext(name: string): void {
    if (this.#isPaused) return;
    this.#wakeWaiting(name).catch((error: unknown) => {
      this.#options.logger.debug(
        { problem: messageOf(error) },
        "Waiting runs not woken; each asks again when its own wait is over",
      );
    });
  }

  /**
   * Wakes the runs that are next in line. A run that has ended meanwhile is replaced by the next one. If there is one, there
   * may be many: then all such runs leave the line, even if this worker has room for few.
   */
  async #wakeWaiting(name: string): Promise<void> {
    const { limiter, wakeEarly } = this.#options;
    const leave = (runs: readonly string[]) =>
      Promise.all(runs.map((run) => limiter.release(name, run, UNASKED, LEAVES)));
    for (let round = 0; round < MOST_ROUNDS; round++) {
      const runs = await limiter.next(name);
      const woken = await Promise.all(runs.map((run) => wakeEarly(run)));
      const gone = runs.filter((_, i) => !woken[i]);
      if (gone.length === 0) return;
      await leave(gone);
      const line = await limiter.line(name);
      const come = await Promise.all(line.map((run) => wakeEarly(run, { onlyChecks: true })));
      await leave(line.filter((_, i) => !come[i]));
    }
  }

  /** Takes the run of `lease` out of the line of a limiter: it calls elsewhere. */
  leave(name: string, lease: Lease): void {
    const { limiter } = this.#options;
    const left = limiter.release(name, deadlineMember(lease.address), UNASKED, LEAVES);
    left.catch((error: unknown) => this.#missed(error));
  }

  async #ask(name: string, lease: Lease, how?: { resumes: boolean }): Promise<CallPermit> {
    const { limiter, clock, logger } = this.#options;
    const askedAtMs = clock.monotonicMs();
    const run = deadlineMember(lease.address);
    const answer = await limiter.acquire(name, run, how).catch((error: unknown): LimiterAnswer => {
      logger.warn({ problem: messageOf(error) }, "Provider limiter could not be asked; calling anyway");
      return UNASKED;
    });
    return answer.status === "open" ? this.#throughLimiter(name, lease, answer, askedAtMs) : answer;
  }

  /** A call through a healthy limiter reports only a limit or a refusal. */
  #releaseHealthy(name: string, lease: Lease, outcome: CallOutcome): Promise<FailureScope> | FailureScope {
    const how = releaseOf(outcome);
    if (how.outcome !== "limited" && how.outcome !== "denied") return "own";
    return this.#tell(name, lease, UNASKED, how);
  }

  #throughLimiter(name: string, lease: Lease, admission: Admission, askedAtMs: number): CallPermit {
    const { limiter, clock, timing } = this.#options;
    const run = deadlineMember(lease.address);
    let renewal: { cancel(): void } | undefined;
    const keep = () => {
      renewal = clock.timeout(timing.renewMs, () => {
        if (!lease.isLive()) return;
        keep();
        limiter.keep(name, run).catch((error: unknown) => this.#missed(error));
      });
    };
    if (admission.holdsSlot) keep();
    return {
      status: "open",
      // Only a later read counts: Redis' answer is newer than an earlier one, and holds if Redis cannot be read any more.
      holds: () => !this.#isPaused || this.#readAtMs < askedAtMs,
      release: (outcome) => {
        renewal?.cancel();
        const how = releaseOf(outcome);
        if (how.outcome === "limited" || how.outcome === "denied")
          return this.#tell(name, lease, admission, how);
        // Nothing waits for it: the bought answer is committed first.
        if (admission.holdsSlot)
          limiter.release(name, run, admission, how).then(
            () => isLastOfRun(outcome) && this.#wakeNext(name),
            (error: unknown) => this.#missed(error),
          );
        return "own";
      },
    };
  }

  async #tell(name: string, lease: Lease, admission: Admission, how: LimiterRelease): Promise<FailureScope> {
    this.suspect(name);
    try {
      const run = deadlineMember(lease.address);
      const answer = await this.#options.limiter.release(name, run, admission, how);
      this.#options.tellOthers(name);
      return answer === "known" ? "shared" : "own";
    } catch (error) {
      this.#missed(error);
      return "own";
    }
  }

  #missed(error: unknown): void {
    this.#options.logger.debug(
      { problem: messageOf(error) },
      "Outcome not reported to the provider limiter; the slot expires by itself",
    );
  }
}

/**
 * Returns a function that wakes a run before its delay is over, or only checks it; it resolves to false if the run makes no call
 * any more.
 */
export function createEarlyWakes(
  store: Pick<AgentStore, "promote" | "runState">,
  wakes: Pick<WakeQueue, "promote">,
) {
  return async (run: string, { onlyChecks } = { onlyChecks: false }): Promise<boolean> => {
    const address = addressOfMember(run);
    if (!address) return false;
    if (onlyChecks) {
      const found = await store.runState(address);
      return found?.status === "queued" || found?.status === "running";
    }
    const answer = await store.promote(address, {});
    if (answer.status === "promoted") await wakes.promote({ uid: address.uid, wake: answer.wake });
    return answer.status !== "gone";
  };
}

/** Returns the name of the limiter before a model: one for each provider, credential and model. */
export function limiterNameOf(model: Pick<Model, "limiterName">, modelId: string): string {
  return model.limiterName?.(modelId) ?? `custom/${modelId}`;
}

/** Returns the provider of a model, for people: the first part of its limiter's name. */
export function providerName(model: Pick<Model, "limiterName">, modelId: string): string {
  return limiterNameOf(model, modelId).split("/", 1)[0] ?? "";
}

/** Returns true if the credential is refused. */
export function isDenial(kind: FailureKind): boolean {
  return DENIALS.has(kind);
}

/**
 * Returns the meaning of a failure for every run with the same credential. A request that is refused for good concerns only its
 * own run.
 */
export function meaningOf({ kind, retryable, retryAfterMs }: ModelFailure): LimiterOutcome {
  if (isDenial(kind)) return "denied";
  return LIMITS.has(kind) || (retryable && retryAfterMs !== undefined) ? "limited" : "neutral";
}

/** Returns true if the run makes no further call soon: another may have its slot at once. */
function isLastOfRun(outcome: CallOutcome): boolean {
  return outcome.status === "answer" && outcome.answer.stopReason !== "tool_use";
}

function releaseOf(outcome: CallOutcome): LimiterRelease {
  if (outcome.status !== "failed")
    return { outcome: outcome.status === "answer" ? "ok" : "neutral", reason: outcome.status };
  const { failure } = outcome;
  const { kind: reason, retryAfterMs } = failure;
  return { outcome: meaningOf(failure), reason, ...(retryAfterMs !== undefined && { retryAfterMs }) };
}
