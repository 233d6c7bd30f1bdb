/**
 * How an operation of several commands sends each of them: once, or as a part of a producer's call, which repeats a command
 * whose answer was lost and knows which ones were answered.
 */

/** See the module's header. */
export interface Steps {
  /** Sends a command that changes nothing, or nothing that a caller would miss. */
  read<T>(send: () => Promise<T>): Promise<T>;
  /** Sends a change; `repeated`: an earlier attempt may have worked. `hasChanged`: whether this answer tells of one, default true. */
  write<T>(send: (repeated: boolean) => Promise<T>, hasChanged?: (answer: T) => boolean): Promise<T>;
}

/** Sends each command once. */
export const SENT_ONCE: Steps = { read: (send) => send(), write: (send) => send(false) };

/** A call that tells its repetitions apart by a key, as the calls of a producer do. */
interface KeyedCall<Key> extends Pick<Steps, "read"> {
  write<T>(
    key: Key,
    send: (repeated: boolean) => Promise<T>,
    hasChanged?: (answer: T) => boolean,
  ): Promise<T>;
}

/** Returns the steps of a call that changes what `key` names. */
export function stepsOf<Key>(call: KeyedCall<Key>, key: Key): Steps {
  return { read: call.read, write: (send, hasChanged) => call.write(key, send, hasChanged) };
}
