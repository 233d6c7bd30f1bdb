/** Clients and parents for tests, stopped when the test is over. */

import { expect } from "vitest";
import { type Client, createClient } from "../../src/producer/client.ts";
import type { ClientOptions } from "../../src/producer/client-resources.ts";
// A client loads its connections at the first use; here that takes longer than a call may.
import "../../src/producer/client-resources.ts";
import { createParent, type Parent, type ParentOptions } from "../../src/producer/parent.ts";
import type { ErrorCode } from "../../src/shared/errors.ts";
import { closeAtEnd } from "./cleanup.ts";
import { redisUrl, uniquePrefix } from "./redis.ts";
import { until } from "./until.ts";

/** A client on the shared Redis, under a prefix of its own unless told otherwise. */
export function testClient(options: Partial<ClientOptions> = {}): Client {
  const client = createClient({
    // Asked of the suite only where it is wanted: `npm run test:chaos` is no suite.
    redisUrl: options.redisUrl ?? redisUrl(),
    prefix: uniquePrefix(),
    model: "offline-1",
    ...options,
  });
  closeAtEnd(() => client.stop());
  return client;
}

/** Starts a client on a Redis that is there, however slow the machine is. */
export async function started(client: Client): Promise<Client> {
  await until(() =>
    client.start().then(
      () => true,
      () => false,
    ),
  );
  return client;
}

/** A parent `planner-7` of `client`. */
export function testParent(client: Client, options: Partial<ParentOptions> = {}): Parent {
  const parent = createParent({ parentId: "planner-7", client, ...options });
  closeAtEnd(() => parent.stop());
  return parent;
}

/** What a refusal must look like, for `toMatchObject`. */
export function refusal(code: ErrorCode, sentence: RegExp = /./): { code: ErrorCode; message: unknown } {
  return { code, message: expect.stringMatching(sentence) };
}
