/** The progress events of a parent's agents: published and forgotten; whoever misses one reads the record. */

import { ProgressEvent } from "../protocol/event.ts";
import type { Keys, ParentAddress } from "../protocol/keys.ts";
import type { RedisClient } from "./connection.ts";

/** Publishes one event; never rejects: an event is a hint. */
export type PublishEvent = (parent: ParentAddress, event: ProgressEvent) => void;

/** A publisher on `redis`; nothing is sent while the connection is down. */
export function eventPublisher(redis: RedisClient, keys: Keys): PublishEvent {
  return (parent, event) => {
    if (redis.status !== "ready") return;
    redis.publish(keys.parent(parent).events, JSON.stringify(event)).catch(() => {});
  };
}

/** The event a message of the channel carries; undefined for what this version does not know. */
export function parseEvent(message: string): ProgressEvent | undefined {
  try {
    return ProgressEvent.safeParse(JSON.parse(message)).data;
  } catch {
    return undefined;
  }
}
