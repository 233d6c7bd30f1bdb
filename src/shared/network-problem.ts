/** Words for a connection that was not made or broke: Node, its fetch and undici tell it by a code, and in words of their own. */
import { codeOf } from "./errors.ts";

/** The words for a connection that the other side ended. */
export const CONNECTION_CLOSED = "connection closed";

const PROBLEMS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "connection refused",
  ENOENT: "no such socket",
  ENOTFOUND: "unknown host",
  EAI_AGAIN: "unknown host",
  ETIMEDOUT: "no answer",
  UND_ERR_CONNECT_TIMEOUT: "no answer",
  EHOSTUNREACH: "no route to the host",
  ENETUNREACH: "no route to the host",
  EACCES: "permission denied",
  ECONNRESET: CONNECTION_CLOSED,
  EPIPE: CONNECTION_CLOSED,
  UND_ERR_SOCKET: CONNECTION_CLOSED,
};

/** Returns what happened to a connection, by the code of `error` or of its cause; undefined: another problem. */
export function networkProblem(error: unknown): string | undefined {
  const cause = error instanceof Error ? error.cause : undefined;
  return PROBLEMS[codeOf(error) ?? ""] ?? PROBLEMS[codeOf(cause) ?? ""];
}
