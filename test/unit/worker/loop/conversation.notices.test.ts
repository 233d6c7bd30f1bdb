/** Guarantee: several notices of the runtime stand in one message, and are the same bytes in whatever order the log has them. */
import { expect, test } from "vitest";
import { Conversation } from "../../../../src/worker/loop/conversation.ts";
import { newNotice } from "../../../../src/worker/loop/log.ts";

const notices = [newNotice(0, "[begin: Mind the gap.]"), newNotice(0, "Your files are gone.", "files")];

function said(...texts: string[]): string {
  const conversation = new Conversation();
  for (const text of texts) conversation.notice(text);
  conversation.deliver(0, ['"go"'], true);
  return conversation.request().messages;
}

test("a notice about files stands beside another one of its message, under a key of its own", () => {
  expect(notices.map(({ key }) => key)).toEqual(["0/notice", "0/notice/files"]);
  const texts = notices.map(({ entry }) => (entry.kind === "notice" ? entry.textJson : ""));
  const messages = said(...texts);
  for (const text of texts) expect(messages).toContain(text);
  expect(said(...texts.toReversed())).toBe(messages);
});
