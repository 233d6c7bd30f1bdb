/**
 * HTTP server for a supervisor of one worker. `GET /healthz`: this process is alive. `GET /readyz`: 200 if it takes work,
 * else 503, with the reasons as JSON. `GET /metrics`: metrics for Prometheus.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { createHttpServer, type HttpServer } from "../../shared/http-server.ts";
import type { Scrape } from "../observe/metrics.ts";
import type { Readiness } from "./readiness.ts";

const REQUEST_TIMEOUT_MS = 5_000;
const MOST_CONNECTIONS = 64;

/** Options of a health server: the worker it asks and the address it listens on. */
export interface HealthServerOptions {
  worker: { readiness(): Promise<Readiness>; metrics(): Promise<Scrape | undefined> };
  host: string;
  /** Port; 0: any free one. */
  port: number;
}

/** Creates a health server, not started. */
export function createHealthServer({ worker, host, port }: HealthServerOptions): HttpServer {
  return createHttpServer({
    who: "The health port",
    host,
    port,
    connections: MOST_CONNECTIONS,
    requestTimeoutMs: REQUEST_TIMEOUT_MS,
    // An answer that fails ends its connection: as an unhandled rejection it would end the worker.
    answer: (request, response) => void answer(request, response, worker).catch(() => response.destroy()),
  });
}

async function answer(
  { method = "GET", url = "/" }: IncomingMessage,
  response: ServerResponse,
  worker: HealthServerOptions["worker"],
): Promise<void> {
  const send = (status: number, contentType: string, text: string) => {
    response.writeHead(status, { "Content-Type": contentType, "Cache-Control": "no-store" });
    response.end(method === "HEAD" ? undefined : text);
  };
  const json = (status: number, body: object) =>
    send(status, "application/json", `${JSON.stringify(body)}\n`);
  if (method !== "GET" && method !== "HEAD") {
    // The server does not read the rest of such a request.
    response.setHeader("Connection", "close");
    return json(405, { status: "only GET is answered" });
  }
  switch (url.split("?")[0]) {
    case "/healthz":
      return json(200, { status: "ok" });
    case "/readyz": {
      const now = await worker.readiness();
      return json(now.ready ? 200 : 503, now);
    }
    case "/metrics": {
      const scrape = await worker.metrics();
      if (!scrape) return json(503, { status: "the worker is not started" });
      return send(200, scrape.contentType, scrape.text);
    }
    default:
      return json(404, { status: "ask /healthz, /readyz or /metrics" });
  }
}
