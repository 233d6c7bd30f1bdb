/** Bounds what this process holds in memory for the requests of each tenant, each part until its answer has ended. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { SubagentError } from "../../shared/errors.ts";
import { principalOf } from "./auth.ts";

const MIB = 1_024 * 1_024;

/** Options of {@link TenantBounds}. */
export interface TenantBoundsOptions {
  /** Maximum for a tenant, MiB. */
  mostMib: number;
  /** Subject of the refusal and the advice in it: `The bodies of this tenant's requests`, `wait until some are answered`. */
  what: string;
  advice: string;
}

/** Counts bytes by tenant; each tenant has its own limit. */
export class TenantBounds {
  readonly #held = new Map<string, number>();
  readonly #options: TenantBoundsOptions;

  constructor(options: TenantBoundsOptions) {
    this.#options = options;
  }

  /**
   * Counts `bytes` for the request's tenant until its answer has ended, none if it has; the returned function replaces them by
   * another size while it has not. Throws `rate_limited` if they exceed the tenant's limit.
   */
  hold(request: IncomingMessage, response: ServerResponse, bytes: number): (bytes: number) => void {
    if (response.closed) return () => {};
    const { tenant } = principalOf(request);
    const { mostMib, what, advice } = this.#options;
    if ((this.#held.get(tenant) ?? 0) + bytes > mostMib * MIB) {
      const sentence = `${what} fill their ${mostMib} MiB of this process: ${advice}, or try another API process.`;
      throw new SubagentError("rate_limited", sentence);
    }
    let counted = 0;
    const count = (now: number) => {
      const sum = (this.#held.get(tenant) ?? 0) + now - counted;
      counted = now;
      if (sum > 0) this.#held.set(tenant, sum);
      else this.#held.delete(tenant);
    };
    count(bytes);
    response.once("close", () => count(0));
    return (now) => {
      if (!response.closed) count(now);
    };
  }
}
