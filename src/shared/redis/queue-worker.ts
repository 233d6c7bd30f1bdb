/**
 * A BullMQ worker whose close has an end. BullMQ waits without a limit for the end of the connection that waits for jobs, and ioredis
 * tells no end of one that was about to reconnect. Timers and that connection would then keep the process alive.
 */
import { Worker } from "bullmq";
import { type Clock, within } from "../clock.ts";

/** See the module's header. */
export class QueueWorker<Data, Result> extends Worker<Data, Result> {
  /** Leaves the pause after a failed check for stalled jobs to its interval: the one that BullMQ adds outlives a close by 5 s. */
  protected override checkConnectionError<T>(check: () => Promise<T>): Promise<T | undefined> {
    return super.checkConnectionError(check, 0);
  }

  /**
   * Closes the worker within `ms`; what BullMQ leaves open then is closed as well. `isForced`: waits for no job. Never rejects.
   */
  async closeWithin(clock: Clock, ms: number, isForced: boolean): Promise<void> {
    const closed = this.pause(true).then(() => this.close(isForced));
    await within(
      clock,
      ms,
      closed.catch(() => {}),
    );
    await this.lockManager.close();
    await this.getBackend()
      .close(true)
      .catch(() => {});
  }
}
