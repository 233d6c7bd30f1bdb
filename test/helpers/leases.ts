/**
 * Ends leases of workers that are gone. A test whose leases end by themselves soon, so that another worker takes the run over, fails
 * where a busy machine keeps a live worker from renewing them: the run is taken from that one, and its call is made again.
 */
import { addressOfMember } from "../../src/shared/protocol/keys.ts";
import type { Stage } from "../stage/stage.ts";

/** Sets the leases of all running agents to the past: the next sweeper finds them. Their workers must be dead. */
export async function endLeases({ redis, keys }: Pick<Stage, "redis" | "keys">): Promise<void> {
  for (const member of await redis.zrange(keys.deadlines, 0, -1)) {
    const address = addressOfMember(member);
    if (!address) continue;
    const { record } = keys.agent(address);
    if ((await redis.hget(record, "status")) !== "running") continue;
    await redis.hset(record, "lease_until", 1, "deadline", 1);
    await redis.zadd(keys.deadlines, "XX", 1, member);
  }
}
