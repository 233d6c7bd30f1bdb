/** The connections to one origin: HTTP/1.1, kept alive, one request at a time on each. */
import { buildConnector, Client } from "undici";
import { type Link, LinkedList } from "../../../shared/linked-list.ts";

/** Options of a connection. Durations in milliseconds. */
export interface ConnectionOptions {
  /** Longest time to establish a connection. Default 10,000. */
  connectTimeoutMs?: number;
  /** Time an unused connection is kept open. Default 30,000; a shorter hint of the server wins. */
  keepAliveMs?: number;
  /** Maximum number of connections; further requests wait. Default: one for each request in progress. */
  connections?: number | undefined;
}

/** Returns why no connection can be made here; empty where one can. */
export function connectionProblems(): string[] {
  if (typeof Client.prototype.destroy === "function") return [];
  return [
    "it needs Node, because this runtime replaces the package undici with one that cannot make these calls (as Bun does): run workers with node; a parent may run here",
  ];
}

/**
 * Clients of one connection each; the one used last is used next. undici's own pool scans all its clients for each request,
 * and reconnects for a request that was aborted.
 */
export class Connections {
  readonly #origin: string;
  readonly #options: Client.Options;
  readonly #most: number;
  readonly #clients = new Set<Client>();
  readonly #idle: Client[] = [];
  readonly #waiting = new LinkedList<(client: Client) => void>();

  constructor(
    origin: string,
    { connectTimeoutMs = 10_000, keepAliveMs = 30_000, connections }: ConnectionOptions,
  ) {
    this.#origin = origin;
    this.#most = connections ?? Number.POSITIVE_INFINITY;
    this.#options = {
      connect: buildConnector({ timeout: connectTimeoutMs }),
      keepAliveTimeout: keepAliveMs,
      keepAliveMaxTimeout: keepAliveMs,
      headersTimeout: 0,
      bodyTimeout: 0,
    };
  }

  /** Calls `use` with an unused client as soon as one is available; returns its place in the line if it must wait. */
  take(use: (client: Client) => void): Link<(client: Client) => void> | undefined {
    const client = this.#idle.pop() ?? this.#open();
    if (!client) return this.#waiting.add(use);
    use(client);
    return undefined;
  }

  /** Takes back a client whose response was read to its end. */
  release(client: Client): void {
    const use = this.#waiting.shift();
    if (use) use(client);
    else this.#idle.push(client);
  }

  /** Destroys a client that must not be used again. */
  discard(client: Client): void {
    this.#clients.delete(client);
    void client.destroy();
    const use = this.#waiting.shift();
    if (use) this.take(use);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#clients].map((client) => client.destroy()));
  }

  #open(): Client | undefined {
    if (this.#clients.size >= this.#most) return undefined;
    const client = new Client(this.#origin, this.#options);
    this.#clients.add(client);
    return client;
  }
}
