/** What is read from a reply stream. Pure: it loads no Redis client. */
import type { ChannelEntry } from "../protocol/reply.ts";

/** One entry and where it stands in the stream. */
export interface StreamEntry {
  /** Stream id; later entries have greater ones. */
  id: string;
  uid: string;
  entry: ChannelEntry;
}

/** An entry of a newer version, or one that is none: to be passed over. */
export interface UnreadableEntry {
  id: string;
  uid: string;
  entry: { kind: "unreadable"; reply_id: string };
}

/** What stands in the stream. */
export type StreamItem = StreamEntry | UnreadableEntry;

/** Whether this version can read an item. */
export function isReadable(item: StreamItem): item is StreamEntry {
  return item.entry.kind !== "unreadable";
}
