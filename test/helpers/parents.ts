/** Creates clients and parents for tests; the test's end stops them. */

import { expect } from "vitest";
import { type Client, createClient } from "../../src/producer/client.ts";
import type { ClientOptions } from "../../src/producer/client-resources.ts";
// A client imports this module at its first use. Compiling it in a test would exceed the time limit of a call.
import "../../src/producer/client-resources.ts";
import { createParent, type Parent, type ParentOptions } from "../../src/producer/parent.ts";
import type { ErrorCode } from "../../src/shared/errors.ts";
import { closeAtEnd } from "./cleanup.ts";
import { redisUrl, uniquePrefix } from "./redis.ts";
import { until } from "./until.ts";

/** Returns a client, by default on the shared Redis with a unique prefix. */
export function testClient(options: Partial<ClientOptions> = {}): Client {
  const client = createClient({
    // Read only if needed: `npm run test:chaos` runs outside of vitest, where `redisUrl()` is not available.
    redisUrl: options.redisUrl ?? redisUrl(),
    prefix: uniquePrefix(),
    model: "offline-1",
    ...options,
  });
  closeAtEnd(() => client.stop());
  return client;
}

/** Starts a client; retries until it succeeds, because the machine may be slow. */
export async function started(client: Client): Promise<Client> {
  await until(() =>
    client.start().then(
      () => true,
      () => false,
    ),
  );
  return client;
}

/** Returns the parent `planner-7` of `client`. */
export function testParent(client: Client, options: Partial<ParentOptions> = {}): Parent {
  const parent = createParent({ parentId: "planner-7", client, ...options });
  closeAtEnd(() => parent.stop());
  return parent;
}

/** Returns the expected shape of an error with this code, for `toMatchObject`. */
export function refusal(code: ErrorCode, sentence: RegExp = /./): { code: ErrorCode; message: unknown } {
  return { code, message: expect.stringMatching(sentence) };
}
