/** Types of another interface on the API's port. None of them needs the types of Express. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Client } from "../../producer/client.ts";
import type { Clock } from "../../shared/clock.ts";
import type { Logger } from "../../shared/logger.ts";
import type { Scope } from "../../shared/redis/api-keys.ts";
import type { Reach } from "../webhooks/address.ts";

/** Answers a request, or hands it on by `next`. Handlers and routers of Express are such functions. */
export type Handler = {
  // As a method, so that a handler whose parameters have the types of Express fits.
  handle(request: IncomingMessage, response: ServerResponse, next: (error?: unknown) => void): unknown;
}["handle"];

/** The tenant, scope and key of a request. */
export interface Principal {
  readonly tenant: string;
  readonly scope: Scope;
  /** The key's id; undefined if the server answers without keys. */
  readonly keyId: string | undefined;
}

/** The guard of the API. */
export interface Auth {
  /**
   * Returns a handler that passes requests whose key has `scope`, with their principal. `isForBrowsers`: the key may come by basic
   * authentication. A browser sends it automatically, even if another site's page makes the request, so such a route must change
   * nothing.
   */
  require(scope: Scope, isForBrowsers?: boolean): Handler;
  /** Returns whether the principal of a streamed answer may still see it. */
  isStillValid(request: IncomingMessage): Promise<boolean>;
  /**
   * Rejects with `unauthorized` if a request has waited 15 s or longer and its key was revoked meanwhile. Call it before the awaited
   * result is sent or acked. If Redis is unavailable, the key counts as valid.
   */
  requireStillValid(request: IncomingMessage): Promise<void>;
}

/** Dependencies of every route. */
export interface RouteParts {
  readonly client: Client;
  readonly auth: Auth;
  readonly clock: Clock;
  /** The addresses that webhooks may reach. */
  readonly webhookReach: Reach;
}

/** Dependencies of another interface on the same port. */
export interface MountParts extends RouteParts {
  readonly logger: Logger | undefined;
}

/** Another interface on the same port: everything below `path`, for keys with `scope`. It reads its own bodies. */
export interface Mount {
  readonly path: string;
  readonly scope: Scope;
  /** Whether a browser reads it and sends its key by basic authentication; the interface must then change nothing. */
  readonly isForBrowsers?: boolean;
  handler(parts: MountParts): Handler;
}
