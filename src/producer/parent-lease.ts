/**
 * A parent's lease: while this process renews it, the parent's agents go on. When it has expired, the sweepers end or finish
 * the agents that were spawned under it.
 *
 * Owns: the time of the last renewal, and the timer of the next one. Its neighbours: the verb `hold` records the lease in
 * Redis, and the sweepers enforce it. Several processes of one parent hold the lease together; the latest expiry counts.
 *
 * 1. No agent is spawned under a lease that this process has not renewed within half of its time.
 *
 * The process renews nothing before the parent's first call or after its stop. A parent created again in time loses nothing.
 */
import { messageOf, SubagentError } from "../shared/errors.ts";
import { addressOfParent, type ParentAddress } from "../shared/protocol/keys.ts";
import type { ClientResources } from "./client-resources.ts";

/** Delay before a failed renewal is retried. */
const RETRY_MS = 1_000;

/** A parent's lease, renewed while this process lives and until the parent's stop. */
export interface LeaseOptions {
  /**
   * Rule for the agents that this parent object spawns, once the lease has expired. `keep`: they go on, as without a lease;
   * `finish`: a run reports what it has, and an agent without a run ends; `destroy`: each ends at once.
   */
  onParentGone: "keep" | "finish" | "destroy";
  /**
   * How long the parent may be silent, default 60,000 ms, at least 1 s, at most 24 h. Choose it longer than this process can
   * be blocked. The agents follow half as long again later, 10 s at least: a sweeper first makes sure that the parent is gone.
   */
  ms?: number | undefined;
}

/** See the module's header. */
export interface ParentLease {
  /** Renews the lease if needed; resolves when it holds. Rejects with `redis_unavailable`, `outcome_unknown` or `closed`. */
  hold(client: ClientResources): Promise<void>;
  /** Ends the renewals; the lease then expires. Idempotent. */
  stop(): void;
}

/** Creates the lease of `parent`, not held yet. */
export function createParentLease(parent: ParentAddress, ms: number): ParentLease {
  let heldAtMs = Number.NEGATIVE_INFINITY;
  let holding: Promise<void> | undefined;
  let next: { cancel(): void } | undefined;
  let stopped = false;

  const renew = async (client: ClientResources) => {
    const sentAtMs = client.clock.monotonicMs();
    await client.call(({ write }) =>
      write({ what: "the renewal of the parent's lease", key: { parent_id: parent.parentId } }, async () => {
        await client.deadlines.hintParent(parent, ms);
        await client.store.hold(addressOfParent(parent), { parent_lease_ms: ms });
      }),
    );
    heldAtMs = sentAtMs;
  };
  const renewAfter = (client: ClientResources, waitMs: number) => {
    next?.cancel();
    if (stopped) return;
    next = client.clock.timeout(waitMs, () => {
      renew(client).then(
        () => renewAfter(client, ms / 3),
        (error: unknown) => {
          if (error instanceof SubagentError && error.code === "closed") return;
          client.logger.warn(
            { problem: messageOf(error) },
            "the parent's lease was not renewed; trying again",
          );
          renewAfter(client, Math.min(RETRY_MS, ms / 3));
        },
      );
    });
  };
  return {
    async hold(client) {
      if (client.clock.monotonicMs() - heldAtMs < ms / 2) return;
      holding ??= renew(client).finally(() => {
        holding = undefined;
        renewAfter(client, ms / 3);
      });
      await holding;
    },
    stop() {
      stopped = true;
      next?.cancel();
    },
  };
}
