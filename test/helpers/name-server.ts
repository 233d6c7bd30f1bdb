import { createSocket } from "node:dgram";
import { once } from "node:events";
import { isIPv4 } from "node:net";
import { closeAtEnd } from "./cleanup.ts";

const [TYPE_A, TYPE_AAAA] = [1, 28];
const [ANSWER, FAILURE, NO_SUCH_NAME] = [0x8180, 0x8182, 0x8183];
const HEADER_BYTES = 12;

/** What a name server knows of a name: its addresses, that it never answers, or that it answers with a failure of its own. */
export type Known = readonly string[] | "silent" | "broken";

/**
 * Starts a name server on a free port of 127.0.0.1, until the test ends. It knows `names`, and that there are no others.
 * `asked` are the questions in their order, such as `fast.test A`.
 */
export async function startNameServer(names: Readonly<Record<string, Known>>) {
  const asked: string[] = [];
  const socket = createSocket("udp4");
  socket.on("message", (question, { address, port }) => {
    const { name, type, end } = parsed(question);
    asked.push(`${name} ${type === TYPE_A ? "A" : "AAAA"}`);
    const known = names[name];
    if (known === "silent") return;
    const found = (known === "broken" ? [] : (known ?? [])).filter(
      (each) => isIPv4(each) === (type === TYPE_A),
    );
    const head = Buffer.from(question.subarray(0, HEADER_BYTES));
    head.writeUInt16BE(known === "broken" ? FAILURE : known ? ANSWER : NO_SUCH_NAME, 2);
    head.writeUInt16BE(found.length, 6);
    head.writeUInt32BE(0, 8);
    socket.send(
      Buffer.concat([head, question.subarray(HEADER_BYTES, end), ...found.map(asRecord)]),
      port,
      address,
    );
  });
  closeAtEnd(async () => {
    socket.close();
    await once(socket, "close");
  });
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  return { server: `127.0.0.1:${socket.address().port}`, asked };
}

function parsed(question: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = [];
  let at = HEADER_BYTES;
  for (let length = question[at] ?? 0; length > 0; length = question[at] ?? 0) {
    labels.push(question.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join(".").toLowerCase(), type: question.readUInt16BE(at + 1), end: at + 5 };
}

/** A record of the name in the question, to be kept for no time. An IPv6 address is written in full. */
function asRecord(address: string): Buffer {
  const bytes = isIPv4(address)
    ? Buffer.from(address.split(".").map(Number))
    : Buffer.from(address.replaceAll(":", ""), "hex");
  const head = Buffer.from([0xc0, HEADER_BYTES, 0, 0, 0, 1, 0, 0, 0, 0, 0, bytes.length]);
  head.writeUInt16BE(isIPv4(address) ? TYPE_A : TYPE_AAAA, 2);
  return Buffer.concat([head, bytes]);
}
