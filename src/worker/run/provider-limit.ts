/**
 * The provider's limit as a run meets it. A healthy provider costs nothing: each worker keeps the limit and the operator's
 * pause in memory and reads them once a second. While a limit holds, each call asks Redis first; then it waits, or its run
 * is handed back. The outcome of the call is written back.
 *
 * 1. No call begins on knowledge older than {@link PAUSE_KNOWN_MS}, unless Redis cannot be asked (3): a pause holds for every worker
 *    that long after it was written.
 * 2. Waiting here is no attempt, no turn and no running time; a long wait does not hold the worker's slot.
 * 3. A limiter that cannot be asked is open, whatever was known before, a pause included: it spares the provider, it does not guard
 *    the run. The lease does, and is over soon where Redis is away.
 * 4. The run that finds a credential refused fails; a run that is refused for it afterwards asks again.
 * 5. A slot is kept no longer than the run's lease lives, however the call ends.
 */
import type { Clock } from "../../shared/clock.ts";
import { messageOf } from "../../shared/errors.ts";
import type { Logger } from "../../shared/logger.ts";
import type { Timing } from "../../shared/protocol/limits.ts";
import { PAUSE_KNOWN_MS, type Pause } from "../../shared/redis/pause.ts";
import type {
  Admission,
  LimiterAnswer,
  LimiterOutcome,
  LimiterRelease,
  ProviderLimiter,
} from "../../shared/redis/provider-limiter.ts";
import type { CallOutcome, FailureKind, Model, ModelFailure } from "../model/model.ts";
import type { Lease } from "./lease.ts";

/** How often the limiter's state is read. */
const READ_EVERY_MS = 1_000;

/** Whom a failure concerns: every run of this provider (`shared`), or only this run (`own`). */
export type FailureScope = "shared" | "own";

/** Whether a run may call now: `wait` and ask again, or `paused` by an operator. */
export type CallPermit =
  | { status: "open"; leave(outcome: CallOutcome): Promise<FailureScope> | FailureScope }
  | { status: "wait"; waitMs: number; reason: string }
  | { status: "paused" };

/** Failures of the credential: every call with it meets them until its owner does something about it. */
const DENIALS: ReadonlySet<FailureKind> = new Set(["authentication", "permission", "billing"]);
const LIMITS: ReadonlySet<FailureKind> = new Set(["rate_limited", "overloaded"]);

/** The admission of a call for which Redis was not asked. */
const UNASKED: Admission = { status: "open", enteredAt: 0, holdsSlot: false };

/** What a limit is made of. */
export interface ProviderLimitOptions {
  limiter: ProviderLimiter;
  /** Tells the other processes that a call met something at this limiter; a hint. */
  tellOthers(name: string): void;
  pause: Pick<Pause, "state">;
  clock: Clock;
  timing: Timing;
  logger: Logger;
}

/** The knowledge of one process. */
export class ProviderLimit {
  readonly #options: ProviderLimitOptions;
  #unhealthy: ReadonlySet<string> = new Set();
  /** Limiters of which something was heard, and when; until a later read. */
  readonly #suspected = new Map<string, number>();
  #isPaused = false;
  #isReading = false;
  #readAtMs = Number.NEGATIVE_INFINITY;
  #timer: { cancel(): void } | undefined;
  #isRunning = false;

  constructor(options: ProviderLimitOptions) {
    this.#options = options;
  }

  /** Begins to read. Idempotent. */
  start(): void {
    if (this.#isRunning) return;
    this.#isRunning = true;
    this.#read();
  }

  /** Reads no more. Idempotent. */
  stop(): void {
    this.#isRunning = false;
    this.#timer?.cancel();
  }

  /** Whether the run of `lease` may call with the limiter `name`; at once where nothing is wrong. */
  enter(name: string, lease: Lease): CallPermit | Promise<CallPermit> {
    if (!this.#isHealthy(name)) return this.#ask(name, lease);
    return { status: "open", leave: (outcome) => this.#leaveHealthy(name, lease, outcome) };
  }

  #isHealthy(name: string): boolean {
    const { clock } = this.#options;
    const isFresh = clock.monotonicMs() - this.#readAtMs < PAUSE_KNOWN_MS;
    return isFresh && !this.#isPaused && !this.#unhealthy.has(name) && !this.#suspected.has(name);
  }

  /** A call met something at the limiter `name`: Redis is asked until its state is read again. */
  suspect(name: string): void {
    this.#suspected.set(name, this.#options.clock.monotonicMs());
  }

  #read(): void {
    const { limiter, pause, clock, logger } = this.#options;
    const sentAtMs = clock.monotonicMs();
    this.#timer = clock.timeout(READ_EVERY_MS, () => this.#read());
    // In an outage they would pile up in the connection.
    if (this.#isReading) return;
    this.#isReading = true;
    const read = Promise.all([limiter.list(), pause.state()]).then(
      ([limiters, paused]) => {
        if (sentAtMs < this.#readAtMs) return;
        this.#unhealthy = new Set(limiters.map(({ name }) => name));
        for (const [name, atMs] of this.#suspected) if (atMs < sentAtMs) this.#suspected.delete(name);
        this.#isPaused = paused !== undefined;
        this.#readAtMs = sentAtMs;
      },
      (error: unknown) => logger.debug({ problem: messageOf(error) }, "Provider limiter not read"),
    );
    void read.finally(() => {
      this.#isReading = false;
    });
  }

  async #ask(name: string, lease: Lease): Promise<CallPermit> {
    const { limiter, logger } = this.#options;
    const answer = await limiter.acquire(name, lease.address.uid).catch((error: unknown): LimiterAnswer => {
      logger.warn({ problem: messageOf(error) }, "Provider limiter could not be asked; calling all the same");
      return UNASKED;
    });
    return answer.status === "open" ? this.#throughLimiter(name, lease, answer) : answer;
  }

  /** A call that nothing held up has something to say only of what went wrong. */
  #leaveHealthy(name: string, lease: Lease, outcome: CallOutcome): Promise<FailureScope> | FailureScope {
    const how = leaveOf(outcome);
    if (how.outcome !== "limited" && how.outcome !== "denied") return "own";
    return this.#tell(name, lease, UNASKED, how);
  }

  #throughLimiter(name: string, lease: Lease, admission: Admission): CallPermit {
    const { limiter, clock, timing } = this.#options;
    const { uid } = lease.address;
    let renewal: { cancel(): void } | undefined;
    const keep = () => {
      renewal = clock.timeout(timing.renewMs, () => {
        if (!lease.isLive()) return;
        keep();
        limiter.keep(name, uid).catch((error: unknown) => this.#missed(error));
      });
    };
    if (admission.holdsSlot) keep();
    return {
      status: "open",
      leave: (outcome) => {
        renewal?.cancel();
        const how = leaveOf(outcome);
        if (how.outcome === "limited" || how.outcome === "denied")
          return this.#tell(name, lease, admission, how);
        // Nothing depends on it: what was bought is committed first.
        if (admission.holdsSlot)
          void limiter.release(name, uid, admission, how).catch((error: unknown) => this.#missed(error));
        return "own";
      },
    };
  }

  async #tell(name: string, lease: Lease, admission: Admission, how: LimiterRelease): Promise<FailureScope> {
    this.suspect(name);
    try {
      const word = await this.#options.limiter.release(name, lease.address.uid, admission, how);
      this.#options.tellOthers(name);
      return word === "known" ? "shared" : "own";
    } catch (error) {
      this.#missed(error);
      return "own";
    }
  }

  #missed(error: unknown): void {
    this.#options.logger.debug({ problem: messageOf(error) }, "Provider limiter not told; its lease will");
  }
}

/** The name of the limiter before a model: one for each provider, credential and model. */
export function limiterNameOf(model: Pick<Model, "limiterName">, modelId: string): string {
  return model.limiterName?.(modelId) ?? `custom/${modelId}`;
}

/** The provider of a model, for people: what stands first in the name of its limiter. */
export function providerName(model: Pick<Model, "limiterName">, modelId: string): string {
  return limiterNameOf(model, modelId).split("/", 1)[0] ?? "";
}

/** Whether the credential is refused. */
export function isDenial(kind: FailureKind): boolean {
  return DENIALS.has(kind);
}

/** What a failure means for every run that calls with the same credential. A refusal for good means nothing to them. */
export function meaningOf({ kind, retryable, retryAfterMs }: ModelFailure): LimiterOutcome {
  if (isDenial(kind)) return "denied";
  return LIMITS.has(kind) || (retryable && retryAfterMs !== undefined) ? "limited" : "neutral";
}

function leaveOf(outcome: CallOutcome): LimiterRelease {
  if (outcome.status !== "failed")
    return { outcome: outcome.status === "answer" ? "ok" : "neutral", reason: outcome.status };
  const { failure } = outcome;
  const { kind: reason, retryAfterMs } = failure;
  return { outcome: meaningOf(failure), reason, ...(retryAfterMs !== undefined && { retryAfterMs }) };
}
