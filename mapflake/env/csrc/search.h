/* Most boards are settled by the preferred shortest paths of the agents; the others by asking for vectors of costs in the order
 * of their sum; crowded ones where that is hopeless by A* over joint states. */
#pragma once
#include "joint.h"

enum { MAKESPAN, SUM_OF_COSTS, ANALYSE, NEEDS_WAIT };
enum { SMALL_EXCESS = 12, SMALL_SPACE = 200000, TIE_BREAK = 10000 };

typedef struct {
    jmp_buf here, *outer;
    int64_t whole;
} Allowance;

static int64_t joint_states(void) /* exact up to SMALL_SPACE */
{
    int64_t states = 1;
    for (int k = 0; k < agents && states <= SMALL_SPACE; k++)
        states *= count_cells(field) - k;
    return states;
}

/* `if (!setjmp(begin(&a, most)->here)) { ... }` ends the block after `most` nodes, by default (0) an eighth of the joint states
 * if there are few; end(&a, 1 if it jumped) closes it. */
static Allowance *begin(Allowance *a, int64_t most)
{
    a->outer = ended;
    a->whole = budget;
    if (!most) {
        most = joint_states();
        most = most > SMALL_SPACE ? budget : most < 8 * 2000 ? 2000 : most / 8;
    }
    if (most < budget - nodes)
        budget = nodes + most;
    ended = &a->here;
    return a;
}

static void end(Allowance *a, int jumped)
{
    ended = a->outer;
    budget = a->whole;
    if (jumped && nodes > budget)
        longjmp(*ended, 1);
}

static int arrival(const Cell *path, int count)
{
    int time = count - 1;
    while (time > 0 && path[time - 1] == path[count - 1])
        time--;
    return time;
}

static int longest(const Paths *paths)
{
    int most = 0;
    for (int i = 0; i < agents; i++)
        most = larger(most, arrival(paths->cells[i], paths->count[i]));
    return most;
}

static int excess_of(const Paths *paths)
{
    int sum = 0;
    for (int i = 0; i < agents; i++)
        sum += arrival(paths->cells[i], paths->count[i]);
    return sum - distances;
}

static Paths *independent(void)
{
    Paths *paths = shortest();
    for (int i = 0; i < agents; i++)
        for (int j = 0; j < i; j++) {
            const Cell *p = paths->cells[i], *q = paths->cells[j];
            for (int t = 1; t <= farthest; t++) {
                int last_p = paths->count[i] - 1, last_q = paths->count[j] - 1;
                int a = p[t - 1 < last_p ? t - 1 : last_p], c = p[t < last_p ? t : last_p];
                int b = q[t - 1 < last_q ? t - 1 : last_q], d = q[t < last_q ? t : last_q];
                if (c == d || (c == b && d == a))
                    return NULL;
            }
        }
    return paths;
}

static Paths *first_paths(int excess, int cap)
{
    Vectors found = vectors(excess, cap, 1);
    for (size_t v = 0; v < found.count; v++) {
        Paths *paths = find_paths(found.at[v].costs, 1);
        if (paths)
            return paths;
    }
    return NULL;
}

static Paths *all_by(int cost)
{
    int costs[AGENTS];
    for (int i = 0; i < agents; i++)
        costs[i] = cost;
    return find_paths(costs, 1);
}

static Paths *least_makespan(void)
{
    volatile int makespan = farthest;
    for (int i = 0; i < agents; i++)
        for (int j = 0; j < i; j++) {
            int alone = pair_makespan(j, i);
            if (alone < 0) {
                reason[0] = j;
                reason[1] = i;
                longjmp(over, PAIR);
            }
            makespan = larger(makespan, alone);
        }
    Allowance a;
    Paths *volatile paths = NULL;
    volatile int jumped = 1;
    if (!setjmp(begin(&a, 0)->here)) {
        while (!(paths = all_by(makespan)))
            makespan++;
        jumped = 0;
    }
    end(&a, jumped);
    if (!paths && !(paths = joint_search(1, 1, -1)))
        longjmp(over, NONE);
    return paths;
}

/* Paths of the least excess from `least` to below `most`, NULL if there are none; `allowed` as for begin. Counts `least` up to the
 * first excess that is not ruled out. */
static Paths *scan(volatile int *least, int most, int cap, int64_t allowed, volatile int *jumped)
{
    Allowance a;
    Paths *volatile found = NULL;
    *jumped = 1;
    if (!setjmp(begin(&a, allowed)->here)) {
        while (*least < most && !(found = first_paths(*least, cap)))
            ++*least;
        *jumped = 0;
    }
    end(&a, *jumped);
    return found;
}

static Paths *fewest_moves(Paths *paths, int excess)
{
    volatile int jumped, least = excess;
    Paths *found = scan(&least, excess_of(paths), longest(paths), TIE_BREAK, &jumped);
    return found ? found : paths;
}

static int least_excess_of_two(int most)
{
    int first = most - 1, second = 0;
    for (; first >= 0; first--) {
        if (meets(0, 1, agent[0].distance + first, agent[1].distance + second))
            most = first + second;
        else
            second++;
    }
    return most;
}

static Paths *down_to(Paths *paths, int least)
{
    int most = excess_of(paths);
    if (agents == 2) {
        Paths *found = first_paths(least_excess_of_two(most), -1);
        return found ? found : paths;
    }
    volatile int jumped, from = least;
    Paths *found = scan(&from, most, -1, 0, &jumped);
    if (jumped)
        found = joint_search(0, 1, most + distances);
    return found ? found : paths;
}

static Paths *sooner(const Paths *paths)
{
    Paths *found = NULL;
    for (int makespan = farthest, most = longest(paths); makespan < most && !found; makespan++)
        found = all_by(makespan);
    return found;
}

static Paths *best_makespan(int *bound)
{
    Allowance a;
    Paths *volatile best = NULL;
    volatile int jumped = 1, least = 0;
    if (!setjmp(begin(&a, 0)->here)) {
        while (!best && least <= SMALL_EXCESS) {
            Paths *paths = first_paths(least, -1);
            if (!paths) {
                least++;
            } else {
                Paths *faster = sooner(paths);
                best = faster ? faster : paths;
            }
        }
        jumped = 0;
    }
    end(&a, jumped);
    *bound = least;
    return fewest_moves(best ? best : least_makespan(), least);
}

/* Paths of optimal sum of costs if they are soon found, and a bound from below on the excess. */
static Paths *soon_best_sum(int *least)
{
    volatile int jumped, excess = 0;
    Paths *paths = scan(&excess, SMALL_EXCESS + 1, -1, 0, &jumped);
    *least = excess;
    return paths;
}

static Paths *best_sum(void)
{
    int least;
    Paths *paths = soon_best_sum(&least);
    return paths ? paths : down_to(least_makespan(), least);
}

static int waits_needed(int excess)
{
    if (excess % 2)
        return 1;
    Allowance a;
    volatile int jumped = 1, found = 0;
    if (!setjmp(begin(&a, 0)->here)) {
        Vectors all = vectors(excess, -1, 0);
        for (size_t v = 0; v < all.count && !found; v++)
            found = find_paths(all.at[v].costs, 0) != NULL;
        jumped = 0;
    }
    end(&a, jumped);
    return jumped ? joint_search(0, 0, distances + excess + 1) == NULL : !found;
}

static int wait_label(void)
{
    int least;
    Paths *paths = soon_best_sum(&least);
    if (!paths) {
        paths = least_makespan();
        if (joint_states() <= SMALL_SPACE) {
            Paths *restless = joint_search(0, 0, distances + excess_of(paths) + 1);
            return !restless || joint_search(0, 1, distances + excess_of(restless)) != NULL;
        }
        paths = down_to(paths, least);
    }
    int excess = excess_of(paths);
    return excess > 0 && waits_needed(excess);
}
