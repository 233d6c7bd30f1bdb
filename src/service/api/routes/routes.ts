/** Every route of the API, in the order of the document. */
import type { Route } from "../route.ts";
import { agentRoutes } from "./agents.ts";
import { eventRoutes } from "./events.ts";
import { parentRoutes } from "./parents.ts";
import { profileRoutes } from "./profile.ts";
import { replyRoutes } from "./replies.ts";
import { taskRoutes } from "./tasks.ts";
import { webhookRoutes } from "./webhook.ts";

/** The rows. */
export const ROUTES: readonly Route[] = [
  ...taskRoutes,
  ...agentRoutes,
  ...parentRoutes,
  ...replyRoutes,
  ...eventRoutes,
  ...profileRoutes,
  ...webhookRoutes,
];
