/**
 * The HTTP API: every call of a parent, for programs in any language.
 *
 * Owns: one HTTP server. The caller owns the client. Redis owns all state, so all API processes give the same answers.
 *
 * 1. Connections, headers, bodies and waiting answers are limited; a slow client is disconnected and delays no other client.
 * 2. Without keys it listens on loopback only.
 * 3. `stop` ends waiting answers and open streams; unacked entries stay in the channel.
 */
import type { RequestListener } from "node:http";
import { type Client, internalsOf } from "../../producer/client.ts";
import { CLOCK_FORM, type Clock, hasMethods, isClock, systemClock } from "../../shared/clock.ts";
import { SubagentError } from "../../shared/errors.ts";
import { createHttpServer } from "../../shared/http-server.ts";
import { guardedLogger, isLogger, LOGGER_FORM, type Logger } from "../../shared/logger.ts";
import {
  COUNT,
  HOST,
  isText,
  type OptionForms,
  optionProblems,
  PORT,
  refuseProblems,
} from "../../shared/options.ts";
import { refuseBundled } from "../../shared/package.ts";
import { TenantId } from "../../shared/protocol/ids.ts";
import { createApiKeys } from "../../shared/redis/api-keys.ts";
import { createOpenable } from "../../shared/start-stop.ts";
import { allowedHosts, isLoopback } from "../board/app.ts";
import type { Reach } from "../webhooks/address.ts";
import { createWebhookPush } from "../webhooks/push.ts";
import { createApiApp } from "./app.ts";
import { createAuth } from "./auth.ts";
import { openBoard } from "./board.ts";
import { type ApiMetrics, createApiMetrics } from "./metrics.ts";
import type { Mount } from "./mount.ts";
import { openRouter } from "./open.ts";
import type { Route } from "./route.ts";
import { agentRoutes } from "./routes/agents.ts";
import { eventRoutes } from "./routes/events.ts";
import { parentRoutes } from "./routes/parents.ts";
import { replyRoutes } from "./routes/replies.ts";
import { taskRoutes } from "./routes/tasks.ts";

/** All routes, in the order of the document. */
const ROUTES: readonly Route[] = [taskRoutes, agentRoutes, parentRoutes, replyRoutes, eventRoutes].flat();

const DEFAULT_HOST = "127.0.0.1";
const DEFAULT_TENANT = "default";
const REQUESTS_PER_MINUTE = 6_000;
const REQUEST_TIMEOUT_MS = 30_000;
const MAX_CONNECTIONS = 2_000;
const REQUESTS_AT_ONCE = MAX_CONNECTIONS / 2;

/** Options of an API. */
export interface ApiOptions {
  /** The client of all requests; its owner stops it. */
  client: Client;
  /** Address to listen on, default `127.0.0.1`. An address that is not loopback needs keys. */
  host?: string;
  /** Default 0: any free port. */
  port?: number;
  /** Accepted host names besides loopback ones. Default none; then an API open to a network accepts any name. */
  hostNames?: readonly string[];
  /** Tenant of the requests before the first key is created, default `default`. */
  tenant?: string;
  /** Maximum requests per minute of one key over all API processes, default 6,000. */
  requestsPerMinute?: number;
  /** Maximum concurrent requests of one tenant in this process, including waits and streams, default 1,000. */
  requestsAtOnce?: number;
  /** Addresses that webhooks may reach, default `public`: only public addresses, over https. */
  webhookReach?: Reach;
  /** Other interfaces on the same port. */
  mounts?: readonly Mount[];
  clock?: Clock;
  logger?: Logger;
}

const isMount = (value: unknown) => hasMethods(value, ["handler"]);
const FORMS: OptionForms<ApiOptions> = {
  client: [() => true, "a client"],
  host: HOST,
  port: PORT,
  hostNames: [(value) => Array.isArray(value) && value.every(isText), "a list of host names"],
  tenant: [(value) => TenantId.safeParse(value).success, "1 to 64 characters of A-Za-z0-9._-"],
  requestsPerMinute: COUNT,
  requestsAtOnce: COUNT,
  webhookReach: [(value) => value === "public" || value === "any", "public or any"],
  mounts: [
    (value) => Array.isArray(value) && value.every(isMount),
    "a list of mounts, as mcpMount() makes one",
  ],
  clock: [isClock, CLOCK_FORM],
  logger: [isLogger, LOGGER_FORM],
};

/** An API. */
export interface Api {
  /** Its URL, e.g. `http://127.0.0.1:41234`; the port is known after `start`. */
  readonly url: string;
  /**
   * Listens; resolves with whether requests need a key. Idempotent. Rejects with `setup_failed` (the address cannot be used),
   * `invalid_config` (open to a network before the first key is created), `redis_unavailable`.
   */
  start(): Promise<{ needsKey: boolean }>;
  /** Closes every connection. Idempotent; the API can be started again on the same port. */
  stop(): Promise<void>;
}

/**
 * Creates an API, not started. Throws `invalid_config` for an invalid client, or with all other wrong options, and `setup_failed`
 * in a program that a bundler made.
 */
export function createApi(options: ApiOptions): Api {
  internalsOf(options?.client);
  refuseProblems("The API", optionProblems(options, FORMS, { maker: "an API" }));
  refuseBundled();
  const { client, host = DEFAULT_HOST, webhookReach: reach, clock = systemClock } = options;
  const logger = options.logger && guardedLogger(options.logger);
  const board = openBoard(client, clock);
  const metrics = createApiMetrics(client, clock);
  const server = createHttpServer({
    who: "The API",
    host,
    port: options.port ?? 0,
    connections: MAX_CONNECTIONS,
    requestTimeoutMs: REQUEST_TIMEOUT_MS,
    answer: openApp({ ...options, ...(logger && { logger }) }, board.mount, metrics),
  });
  const given = { ...(reach && { reach }), ...(logger && { logger }) };
  const push = createWebhookPush({ client, clock, onAnswer: metrics.pushed, ...given });
  const open = async () => {
    const needsKey = await areKeysMade(client);
    if (!needsKey && !isLoopback(host)) {
      const sentence = `No API key has been created, so the API listens on loopback only, not on ${host}: create a key first (subagent-queue keys create).`;
      throw new SubagentError("invalid_config", sentence);
    }
    await server.start();
    push.start();
    if (!needsKey)
      logger?.info({ host }, "No API key has been created: every user of this machine may use the API");
    return { needsKey };
  };
  const close = async () => {
    await server.stop();
    await Promise.all([push.stop(), board.close()]);
  };
  return {
    ...createOpenable(open, close),
    get url() {
      return server.url;
    },
  };
}

function openApp(options: ApiOptions, board: Mount, metrics: ApiMetrics): RequestListener {
  const { client, host = DEFAULT_HOST, hostNames, tenant = DEFAULT_TENANT } = options;
  const { mounts = [], webhookReach = "public", clock = systemClock, logger } = options;
  const { requestsPerMinute = REQUESTS_PER_MINUTE, requestsAtOnce = REQUESTS_AT_ONCE } = options;
  const { open } = internalsOf(client);
  const openWithoutKeys = isLoopback(host);
  const auth = createAuth({ open, openWithoutKeys, tenant, requestsPerMinute, requestsAtOnce, clock });
  return createApiApp({
    auth,
    hosts: allowedHosts(host, hostNames),
    count: metrics.count,
    open: openRouter(client, ROUTES),
    routes: ROUTES,
    mounts: [...mounts, board, metrics.mount],
    parts: { client, auth, clock, logger, webhookReach },
  });
}

async function areKeysMade(client: Client): Promise<boolean> {
  await client.start();
  const { read, redis, keys } = await internalsOf(client).open();
  return read(() => createApiKeys(redis, keys).exist());
}
