/**
 * The only access to Bull Board: a router with its pages and its reading routes over the wake queue.
 *
 * 1. Only routes that read are mounted; no route can change a queue.
 * 2. All job data passes through `visibleFields`: ids, states, counts.
 * 3. The pages load nothing from other hosts.
 * 4. A page reads at most {@link MOST_JOBS_A_PAGE} jobs of each state.
 */
import { createBullBoard } from "@bull-board/api";
import { BullMQAdapter } from "@bull-board/api/bullMQAdapter";
import { ExpressAdapter } from "@bull-board/express";
import type { Express, NextFunction, Request, Response } from "express";
import { z } from "zod";
import { AgentId } from "../../shared/protocol/ids.ts";
import { STOP_REASONS, StopReason } from "../../shared/protocol/reply.ts";
import { Wake } from "../../shared/protocol/worker.ts";
import type { ReadableWakeQueue } from "../../shared/redis/wake-queue.ts";

type Job = NonNullable<Awaited<ReturnType<BullMQAdapter["getJob"]>>>;
type Routes = Parameters<ExpressAdapter["setApiRoutes"]>[0];

const TITLE = "subagent-queue";
const DESCRIPTION = "Each job tells a worker to look at one sub-agent. Read-only: ids and states.";
/** States that a wake never has; without them the other states fit on a screen. */
const UNUSED: ReadonlySet<string> = new Set(["waiting-children"]);
/** `<link>` elements that fetch from another host; the pages fall back to the machine's own fonts. */
const REMOTE_LINK = /<link\b[^>]*\bhref="https?:\/\/[^>]*>/gi;
const FONTS = { "font-sans": "system-ui, sans-serif", "font-mono": "ui-monospace, monospace" };
/** Darker muted colours: many system fonts render the light weight of muted text too faint in the default colours. */
const THEME = {
  light: { ...FONTS, "muted-foreground": "#3f4a5a" },
  dark: { ...FONTS, "muted-foreground": "#c3ccd8" },
};

/** Creates the board over `queue` for the path `basePath`. The caller must check access. */
export function createBullBoardRouter(queue: ReadableWakeQueue, basePath: string): Express {
  const server = new ReadingServer();
  server.setBasePath(basePath);
  const router = server.getRouter();
  router.disable("x-powered-by");
  router.use(withoutRemoteLinks);
  createBullBoard({
    queues: [new WakeView(queue, { readOnlyMode: true, description: DESCRIPTION })],
    serverAdapter: server,
    options: {
      uiConfig: {
        boardTitle: TITLE,
        hideDocsLink: true,
        miscLinks: [],
        theme: THEME,
      },
    },
  });
  return router;
}

/** Mounts only the routes that read, and hides the text of errors. */
class ReadingServer extends ExpressAdapter {
  override getRouter(): Express {
    return this.app;
  }
  override setErrorHandler(): this {
    return super.setErrorHandler(() => ({
      status: 500,
      body: { error: { key: "ERRORS.INTERNAL_SERVER_ERROR" } },
    }));
  }
  override setApiRoutes(routes: Routes): ExpressAdapter {
    return super.setApiRoutes(routes.filter(({ method }) => method === "get"));
  }
}

/** Maximum jobs of a page: Redis reads them in one script, and serves no other client meanwhile. */
const MOST_JOBS_A_PAGE = 100;

/** The wake queue, reduced to ids and states. */
class WakeView extends BullMQAdapter {
  override getJobStatuses(): ReturnType<BullMQAdapter["getJobStatuses"]> {
    return super.getJobStatuses().filter((status) => !UNUSED.has(status));
  }
  override async getJob(id: string): Promise<Job | undefined> {
    const job = await super.getJob(id);
    return job && reduced(job);
  }
  override async getJobs(
    ...[statuses, start = 0, end = Number.POSITIVE_INFINITY]: Parameters<BullMQAdapter["getJobs"]>
  ): Promise<Job[]> {
    const last = Math.min(end, start + MOST_JOBS_A_PAGE - 1);
    return (await super.getJobs(statuses, start, last)).map(reduced);
  }
  override async getJobLogs(): Promise<string[]> {
    return [];
  }
  override async getJobSchedulers(): Promise<[]> {
    return [];
  }
  override async getFlowProducer(): Promise<null> {
    return null;
  }
}

/** Overwrites a job's hidden fields. The job is a copy made for this request, so no other code sees the change. */
function reduced(job: Job): Job {
  const { attemptsStarted } = job;
  return Object.assign(job, visibleFields(job), {
    deferredFailure: undefined,
    deduplicationId: undefined,
    // Shown only if the job was taken again after a stall.
    attemptsStarted: attemptsStarted > 1 ? attemptsStarted : 0,
  });
}

function withoutRemoteLinks(_request: Request, response: Response, next: NextFunction): void {
  const send = response.send.bind(response);
  response.send = (body?: unknown) => send(typeof body === "string" ? body.replace(REMOTE_LINK, "") : body);
  next();
}

// The dashboard's view of a wake's job: only ids, states and counts.

/** The fields of a job that can hold more than ids. */
export interface JobFields {
  name: string;
  data: unknown;
  returnvalue: unknown;
  progress: unknown;
  failedReason?: string;
  stacktrace: string[] | null;
  opts: { attempts?: number; delay?: number };
}

const HIDDEN = "(hidden)";
const NOT_A_WAKE = { hidden: "This job is no wake of this version." };
const FAILED_RUN = /^The run ended as failed: ([a-z_]+)\.$/;
const FAILED_OTHERWISE = "Failed outside of a run; the worker's log says why.";

/** A wake with a checked agent id. */
const VisibleWake = Wake.extend({ agent_id: AgentId });

/** The result of a wake: `status` of the run; if there was none, `because` has the reason. */
const VisibleResult = z.object({
  status: z.string().regex(/^[a-z]{1,16}$/),
  stop_reason: StopReason.optional(),
  turns: z.int().min(0).optional(),
  because: z
    .string()
    .regex(/^[a-z_]{1,32}$/)
    .optional()
    .catch(undefined),
});

/** Returns the fields of `job` that may be shown. */
export function visibleFields(job: JobFields): Omit<JobFields, "failedReason"> & { failedReason: string } {
  const wake = VisibleWake.safeParse(job.data);
  const result = VisibleResult.safeParse(job.returnvalue);
  const { attempts, delay } = job.opts;
  return {
    name: AgentId.safeParse(job.name).success ? job.name : HIDDEN,
    data: wake.success ? wake.data : NOT_A_WAKE,
    returnvalue: result.success ? result.data : null,
    progress: typeof job.progress === "number" ? job.progress : 0,
    failedReason: visibleReason(job.failedReason),
    stacktrace: [],
    opts: { ...(attempts !== undefined && { attempts }), ...(delay !== undefined && { delay }) },
  };
}

function visibleReason(reason = ""): string {
  if (reason === "") return "";
  const stopReason = FAILED_RUN.exec(reason)?.[1];
  const known: readonly string[] = STOP_REASONS.failed;
  return stopReason !== undefined && known.includes(stopReason) ? reason : FAILED_OTHERWISE;
}
