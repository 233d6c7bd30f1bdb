/** Taking an entry out of the reply channel for a caller who gets it in hand. */
import { messageOf } from "../shared/errors.ts";
import { newRequestKey } from "../shared/protocol/ids.ts";
import type { ParentAddress } from "../shared/protocol/keys.ts";
import type { StreamEntry } from "../shared/redis/reply-stream.ts";
import type { OpenClient } from "./client.ts";

/** Acks; never rejects. In hand is in hand: what could not be acked (false) is seen again by the channel's readers. */
export async function takeFromChannel(
  client: OpenClient,
  parent: ParentAddress,
  entry: StreamEntry,
): Promise<boolean> {
  try {
    await client.inbox.acker(parent)(entry, newRequestKey());
    return true;
  } catch (error) {
    const { reply_id } = entry.entry;
    client.logger.warn({ reply_id, problem: messageOf(error) }, "a reply was not acked");
    return false;
  }
}
