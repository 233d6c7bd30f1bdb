/**
 * Authentication and authorization of requests. The tenant comes only from the key, never from another part of a request.
 *
 * 1. Before the first key is created, a server on loopback answers for one tenant. From then on each request needs a key.
 * 2. Failed keys and requests are counted in Redis, for all API processes together; if Redis is unavailable, in this process.
 * 3. One tenant's waiting and streaming requests take at most half of this process's connections: other tenants find free ones.
 */
import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Request, Response } from "express";
import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from "rate-limiter-flexible";
import type { ClientResources } from "../../producer/client-resources.ts";
import type { Clock } from "../../shared/clock.ts";
import { SubagentError } from "../../shared/errors.ts";
import { type ApiKeys, createApiKeys, type Scope } from "../../shared/redis/api-keys.ts";
import { createKeyUses } from "./key-usage.ts";
import type { Auth, Principal } from "./mount.ts";
import { READING, sendProblem } from "./problem.ts";

/** Options of the guard. */
export interface AuthOptions {
  /** Opens the connections; rejects while Redis is unavailable. */
  open(): Promise<ClientResources>;
  /** Whether requests without a key are answered before the first key is created; only for a server on loopback. */
  openWithoutKeys: boolean;
  /** Tenant of a request without a key. */
  tenant: string;
  /** Maximum requests per minute of one key, or of one address without keys. */
  requestsPerMinute: number;
  /** Maximum concurrent requests of one tenant in this process. */
  requestsAtOnce: number;
  clock: Clock;
}

/** Requirements of an interface for a request. */
interface Admission {
  readonly scope: Scope;
  readonly isForBrowsers: boolean;
}

interface Identified {
  readonly principal: Principal;
  readonly token: string | undefined;
}

interface Admitted extends Identified {
  /** Time of the admission, monotonic clock. */
  readonly atMs: number;
}

const principals = new WeakMap<IncomingMessage, Admitted>();

/** Returns the principal of a request. Throws for a request that did not pass {@link Auth.require}. */
export function principalOf(request: IncomingMessage): Principal {
  const found = principals.get(request);
  if (found) return found.principal;
  throw new SubagentError("unauthorized", "This request needs an API key.");
}

const INCLUDED: Readonly<Record<Scope, readonly Scope[]>> = {
  read: ["read"],
  spawn: ["read", "spawn"],
  admin: ["read", "spawn", "admin"],
};
const FAILURES_PER_MINUTE = 60;
const WINDOW_S = 60;
const CHECKED_AGAIN_MS = 15_000;
/** The answer "no key was created yet" is cached this long. */
const BELIEVED_MS = 1_000;
/** Each is a header of its own: Chromium finds no second scheme in one, and asks for no password. */
const OFFERED_TO_BROWSERS = ["Bearer", 'Basic realm="subagent-queue"'];
const UNKNOWN_KEY = "This key is unknown or revoked: make one with `subagent-queue keys create`.";
const NO_BEARER =
  "This Authorization header has no key in the form that this address reads: send it as `Authorization: Bearer saq_…`, or as `X-Api-Key: saq_…`.";

/** Creates a guard over the installation's keys. */
export function createAuth(options: AuthOptions): Auth {
  const { open } = options;
  const limits = requestLimits(open, options.requestsPerMinute);
  const takeSlot = slots(options.requestsAtOnce);
  const areKeysMade = keysMade(options);
  const noteUse = keyUses(options);

  const identify = async (request: Request, { isForBrowsers }: Admission): Promise<Identified> => {
    const token = tokenOf(request, isForBrowsers);
    if (token === undefined) {
      if (options.openWithoutKeys && !(await areKeysMade()))
        return { principal: { tenant: options.tenant, scope: "admin", keyId: undefined }, token };
      throw new SubagentError(
        "unauthorized",
        "Send a key as `Authorization: Bearer saq_…`; `subagent-queue keys create` makes one.",
      );
    }
    const key = await findKey(open, token);
    if (!key) throw new SubagentError("unauthorized", UNKNOWN_KEY);
    noteUse(key.key_id);
    return { principal: { tenant: key.tenant, scope: key.scope, keyId: key.key_id }, token };
  };
  const letIn = async (request: Request, response: Response, admission: Admission) => {
    const address = request.socket.remoteAddress ?? "";
    const found = await identify(request, admission).catch(async (error: unknown) => {
      if (isUnauthorized(error)) await limits.countFailure(address, response);
      throw error;
    });
    await limits.count(found.principal.keyId ?? address, response);
    requireScope(found.principal, admission.scope);
    takeSlot(found.principal.tenant, response);
    principals.set(request, { ...found, atMs: options.clock.monotonicMs() });
  };
  return {
    ...checksOf(options, areKeysMade, noteUse),
    require:
      (scope, isForBrowsers = false) =>
      (request: Request, response: Response, next: () => void) => {
        letIn(request, response, { scope, isForBrowsers }).then(
          () => next(),
          (error: unknown) => {
            if (isForBrowsers && isUnauthorized(error)) response.set("WWW-Authenticate", OFFERED_TO_BROWSERS);
            sendProblem(response, error);
          },
        );
      },
  };
}

/** Returns the later checks of an admitted request. */
function checksOf(
  { open, clock }: AuthOptions,
  areKeysMade: () => Promise<boolean>,
  noteUse: (keyId: string) => void,
): Pick<Auth, "isStillValid" | "requireStillValid"> {
  const isStillValid: Auth["isStillValid"] = async (request) => {
    const token = principals.get(request)?.token;
    if (token === undefined) return !(await areKeysMade());
    const key = await findKey(open, token);
    if (key) noteUse(key.key_id);
    return key !== undefined;
  };
  return {
    isStillValid,
    async requireStillValid(request) {
      const { atMs = Number.NEGATIVE_INFINITY } = principals.get(request) ?? {};
      if (clock.monotonicMs() - atMs < CHECKED_AGAIN_MS) return;
      if (!(await isStillValid(request).catch(() => true)))
        throw new SubagentError("unauthorized", UNKNOWN_KEY);
    },
  };
}

function isUnauthorized(error: unknown): boolean {
  return error instanceof SubagentError && error.code === "unauthorized";
}

async function findKey(open: AuthOptions["open"], token: string) {
  const client = await open();
  return client.read(() => apiKeysOf(client).find(token));
}

function requireScope({ scope: has }: Principal, scope: Scope): void {
  if (INCLUDED[has].includes(scope)) return;
  const sentence = `This key has the scope ${has}; this request needs ${scope}.`;
  throw new SubagentError("forbidden", sentence, { scope });
}

/**
 * Returns the token of `Authorization: Bearer …`, else that of `X-Api-Key`. For a page in a browser, which cannot send these
 * headers, it returns the password of basic authentication. Undefined without any; throws `unauthorized` for an Authorization
 * header of another form without a key beside it, such as that of a proxy.
 */
function tokenOf(
  { method, headers: { authorization = "", "x-api-key": apiKey } }: Request,
  isForBrowsers: boolean,
): string | undefined {
  const token = /^Bearer +(\S+)$/i.exec(authorization)?.[1];
  if (token !== undefined) return token;
  if (typeof apiKey === "string" && apiKey !== "") return apiKey;
  const [, basic] =
    (isForBrowsers && READING.includes(method) && /^Basic +([A-Za-z0-9+/=]+)$/i.exec(authorization)) || [];
  if (basic !== undefined)
    return Buffer.from(basic, "base64")
      .toString()
      .replace(/^[^:]*:/, "");
  // `Bearer` alone, e.g. of a script whose variable is empty, counts as no key.
  if (/^(?:Bearer *)?$/i.test(authorization)) return undefined;
  throw new SubagentError("unauthorized", NO_BEARER);
}

function apiKeysOf({ redis, keys }: ClientResources): ApiKeys {
  return createApiKeys(redis, keys);
}

function keysMade({ open, clock }: AuthOptions): () => Promise<boolean> {
  let areMade = false;
  let askedAtMs = Number.NEGATIVE_INFINITY;
  return async () => {
    if (areMade || clock.monotonicMs() - askedAtMs < BELIEVED_MS) return areMade;
    const client = await open();
    areMade = await client.read(() => apiKeysOf(client).exist());
    askedAtMs = clock.monotonicMs();
    return areMade;
  };
}

/** Returns a function that notes the use of a key; see {@link createKeyUses}. */
function keyUses({ open, clock }: AuthOptions): (keyId: string) => void {
  return createKeyUses(clock, async (keyId) => {
    await apiKeysOf(await open()).noteUse(keyId);
  });
}

// Rate limits. The names in the store reveal nothing: a key's id or an address is hashed first.

function requestLimits(open: AuthOptions["open"], requestsPerMinute: number) {
  let limiters: Promise<{ requests: RateLimiterRedis; failures: RateLimiterRedis }> | undefined;
  const make = async () => {
    const { redis, keys } = await open();
    const limiter = (name: string, points: number) =>
      new RateLimiterRedis({
        storeClient: redis,
        keyPrefix: `${keys.requestRate}:${name}`,
        points,
        duration: WINDOW_S,
        // After the limit is exceeded, this process refuses until the window ends, without asking Redis.
        inMemoryBlockOnConsumed: points + 1,
        rejectIfRedisNotReady: true,
        insuranceLimiter: new RateLimiterMemory({ points, duration: WINDOW_S }),
      });
    return {
      requests: limiter("requests", requestsPerMinute),
      failures: limiter("failures", FAILURES_PER_MINUTE),
    };
  };
  const opened = () => {
    limiters ??= make();
    limiters.catch(() => {
      limiters = undefined;
    });
    return limiters;
  };
  const nameOf = (who: string) => createHash("sha256").update(who).digest("hex").slice(0, 32);
  /** Counts once. Rejects with `redis_unavailable` while Redis is silent: a limiter by itself waits for seconds. */
  const count = async (limiter: RateLimiterRedis, who: string, response: Response) => {
    const { redis, read } = await open();
    const consume = () => limiter.consume(nameOf(who)).then(() => undefined, refusalOf);
    // A limiter that finds no connection counts in this process, at once.
    const refused = await (redis.status === "ready" ? read(consume) : consume());
    if (refused) throwLimited(refused, response);
  };
  return {
    count: async (who: string, response: Response) => count((await opened()).requests, who, response),
    countFailure: async (address: string, response: Response) =>
      count((await opened()).failures, address, response),
  };
}

/** Returns what a limiter rejected with, if it refused; throws any other failure. */
function refusalOf(failure: unknown): RateLimiterRes {
  if (failure instanceof RateLimiterRes) return failure;
  throw failure;
}

/** Returns a counter of each tenant's running requests; it throws `rate_limited` for more than `most`. */
function slots(most: number): (tenant: string, response: Response) => void {
  const taken = new Map<string, number>();
  return (tenant, response) => {
    if (response.closed) return;
    const count = taken.get(tenant) ?? 0;
    if (count >= most) {
      const sentence = `${most} requests of this tenant are being answered already: end one that waits or streams, or try another API process.`;
      throw new SubagentError("rate_limited", sentence);
    }
    taken.set(tenant, count + 1);
    response.once("close", () => {
      const left = (taken.get(tenant) ?? 1) - 1;
      if (left > 0) taken.set(tenant, left);
      else taken.delete(tenant);
    });
  };
}

function throwLimited({ msBeforeNext }: RateLimiterRes, response: Response): never {
  const seconds = Math.max(1, Math.ceil(msBeforeNext / 1_000));
  response.set("Retry-After", String(seconds));
  throw new SubagentError("rate_limited", `Too many requests: try again in ${seconds} s.`, {
    retry_after_s: seconds,
  });
}
