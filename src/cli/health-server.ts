/**
 * Answers a supervisor's questions about one worker: `GET /healthz` (this process is alive) and `GET /readyz` (200 when
 * it takes work, else 503; both with the reasons as JSON).
 *
 * Owns: one HTTP server. Its neighbour, the worker, knows the answers. `stop` resolves when every connection is closed.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { messageOf, SubagentError } from "../shared/errors.ts";
import type { Readiness } from "../worker/readiness.ts";

const HEADERS_TIMEOUT_MS = 5_000;
const MAX_CONNECTIONS = 64;

/** See the module's header. */
export interface HealthServer {
  /** `http://host:port`; the port is known once it has started. */
  readonly url: string;
  /** Listens. Throws `setup_failed` when the address cannot be used. */
  start(): Promise<void>;
  /** Idempotent. */
  stop(): Promise<void>;
}

/** What a health server is made of. */
export interface HealthServerOptions {
  readiness(): Promise<Readiness>;
  host: string;
  /** 0: any free one. */
  port: number;
}

/** A health server, not started. */
export function createHealthServer({ readiness, host, port }: HealthServerOptions): HealthServer {
  const server = createServer({ headersTimeout: HEADERS_TIMEOUT_MS }, (request, response) => {
    void answer(request, response, readiness);
  });
  server.maxConnections = MAX_CONNECTIONS;
  return {
    get url() {
      const address = server.address();
      const heard = typeof address === "object" && address !== null ? address.port : port;
      return `http://${host.includes(":") ? `[${host}]` : host}:${heard}`;
    },
    async start() {
      server.listen({ host, port });
      await once(server, "listening").catch((error: unknown) => {
        const sentence = `The health checks cannot listen on ${host}:${port} (${messageOf(error)}): choose another address or port.`;
        throw new SubagentError("setup_failed", sentence, { host, port }, error);
      });
    },
    stop: () => close(server),
  };
}

async function answer(
  { method = "GET", url = "/" }: IncomingMessage,
  response: ServerResponse,
  readiness: () => Promise<Readiness>,
): Promise<void> {
  const send = (status: number, body: object) => {
    const headers = { "Content-Type": "application/json", "Cache-Control": "no-store" };
    response.writeHead(status, headers).end(method === "HEAD" ? undefined : `${JSON.stringify(body)}\n`);
  };
  const path = url.split("?")[0];
  if (method !== "GET" && method !== "HEAD") return send(405, { status: "only GET is answered" });
  if (path === "/healthz") return send(200, { status: "ok" });
  if (path !== "/readyz") return send(404, { status: "ask /healthz or /readyz" });
  const now = await readiness();
  send(now.ready ? 200 : 503, now);
}

async function close(server: Server): Promise<void> {
  if (!server.listening) return;
  const closed = once(server, "close");
  server.close();
  server.closeAllConnections();
  await closed;
}
