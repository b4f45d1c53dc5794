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

static int64_t joint_states(Space *s) /* exact up to SMALL_SPACE */
{
    int64_t states = 1;
    for (int k = 0; k < s->agents && states <= SMALL_SPACE; k++)
        states *= count_cells(s->field) - k;
    return states;
}

/* `if (!setjmp(begin(s, &a, most)->here)) { ... }` ends the block after `most` nodes, by default (0) an eighth of the joint states
 * if there are few; end(s, &a, 1 if it jumped) closes it. */
static Allowance *begin(Space *s, Allowance *a, int64_t most)
{
    a->outer = s->ended;
    a->whole = s->budget;
    if (!most) {
        most = joint_states(s);
        most = most > SMALL_SPACE ? s->budget : most < 8 * 2000 ? 2000 : most / 8;
    }
    if (most < s->budget - s->nodes)
        s->budget = s->nodes + most;
    s->ended = &a->here;
    return a;
}

static void end(Space *s, Allowance *a, int jumped)
{
    s->ended = a->outer;
    s->budget = a->whole;
    if (jumped && s->nodes > s->budget)
        longjmp(*s->ended, 1);
}

static int arrival(const Cell *path, int count)
{
    int time = count - 1;
    while (time > 0 && path[time - 1] == path[count - 1])
        time--;
    return time;
}

static int longest(Space *s, const Paths *paths)
{
    int most = 0;
    for (int i = 0; i < s->agents; i++)
        most = larger(most, arrival(paths->cells[i], paths->count[i]));
    return most;
}

static int excess_of(Space *s, const Paths *paths)
{
    int sum = 0;
    for (int i = 0; i < s->agents; i++)
        sum += arrival(paths->cells[i], paths->count[i]);
    return sum - s->distances;
}

static int cell_at(const Paths *paths, int i, int time)
{
    int last = paths->count[i] - 1;
    return paths->cells[i][time < last ? time : last];
}

static Paths *independent(Space *s)
{
    Paths *paths = shortest(s);
    for (int i = 0; i < s->agents; i++)
        for (int j = 0; j < i; j++)
            for (int t = 1; t <= s->farthest; t++) {
                int to_i = cell_at(paths, i, t), to_j = cell_at(paths, j, t);
                if (to_i == to_j || (to_i == cell_at(paths, j, t - 1) && to_j == cell_at(paths, i, t - 1)))
                    return NULL;
            }
    return paths;
}

static Paths *first_paths(Space *s, int excess, int cap)
{
    Vectors found = vectors(s, excess, cap, 1);
    for (size_t v = 0; v < found.count; v++) {
        Paths *paths = find_paths(s, found.at[v].costs, 1);
        if (paths)
            return paths;
    }
    return NULL;
}

static Paths *all_by(Space *s, int cost)
{
    int costs[AGENTS];
    for (int i = 0; i < s->agents; i++)
        costs[i] = cost;
    return find_paths(s, costs, 1);
}

static Paths *least_makespan(Space *s)
{
    volatile int makespan = s->farthest;
    for (int i = 0; i < s->agents; i++)
        for (int j = 0; j < i; j++) {
            int alone = pair_makespan(s, j, i);
            if (alone < 0) {
                s->reason[0] = j;
                s->reason[1] = i;
                longjmp(s->arena.over, PAIR);
            }
            makespan = larger(makespan, alone);
        }
    Allowance a;
    Paths *volatile paths = NULL;
    volatile int jumped = 1;
    if (!setjmp(begin(s, &a, 0)->here)) {
        while (!(paths = all_by(s, makespan)))
            makespan++;
        jumped = 0;
    }
    end(s, &a, jumped);
    if (!paths && !(paths = joint_search(s, 1, 1, -1)))
        longjmp(s->arena.over, NONE);
    return paths;
}

/* Paths of the least excess from `least` to below `most`, NULL if there are none; `allowed` as for begin. Counts `least` up to the
 * first excess that is not ruled out. */
static Paths *scan(Space *s, volatile int *least, int most, int cap, int64_t allowed, volatile int *jumped)
{
    Allowance a;
    Paths *volatile found = NULL;
    *jumped = 1;
    if (!setjmp(begin(s, &a, allowed)->here)) {
        while (*least < most && !(found = first_paths(s, *least, cap)))
            ++*least;
        *jumped = 0;
    }
    end(s, &a, *jumped);
    return found;
}

static Paths *fewest_moves(Space *s, Paths *paths, int excess)
{
    volatile int jumped, least = excess;
    Paths *found = scan(s, &least, excess_of(s, paths), longest(s, paths), TIE_BREAK, &jumped);
    return found ? found : paths;
}

static int least_excess_of_two(Space *s, int most)
{
    int first = most - 1, second = 0;
    for (; first >= 0; first--) {
        if (meets(s, 0, 1, s->agent[0].distance + first, s->agent[1].distance + second))
            most = first + second;
        else
            second++;
    }
    return most;
}

static Paths *down_to(Space *s, Paths *paths, int least)
{
    int most = excess_of(s, paths);
    if (s->agents == 2) {
        Paths *found = first_paths(s, least_excess_of_two(s, most), -1);
        return found ? found : paths;
    }
    volatile int jumped, from = least;
    Paths *found = scan(s, &from, most, -1, 0, &jumped);
    if (jumped)
        found = joint_search(s, 0, 1, most + s->distances);
    return found ? found : paths;
}

static Paths *sooner(Space *s, const Paths *paths)
{
    Paths *found = NULL;
    for (int makespan = s->farthest, most = longest(s, paths); makespan < most && !found; makespan++)
        found = all_by(s, makespan);
    return found;
}

static Paths *best_makespan(Space *s, int *bound)
{
    Allowance a;
    Paths *volatile best = NULL;
    volatile int jumped = 1, least = 0;
    if (!setjmp(begin(s, &a, 0)->here)) {
        while (!best && least <= SMALL_EXCESS) {
            Paths *paths = first_paths(s, least, -1);
            if (!paths) {
                least++;
            } else {
                Paths *faster = sooner(s, paths);
                best = faster ? faster : paths;
            }
        }
        jumped = 0;
    }
    end(s, &a, jumped);
    *bound = least;
    return fewest_moves(s, best ? best : least_makespan(s), least);
}

/* Paths of optimal sum of costs if they are soon found, and a bound from below on the excess. */
static Paths *soon_best_sum(Space *s, int *least)
{
    volatile int jumped, excess = 0;
    Paths *paths = scan(s, &excess, SMALL_EXCESS + 1, -1, 0, &jumped);
    *least = excess;
    return paths;
}

static Paths *best_sum(Space *s)
{
    int least;
    Paths *paths = soon_best_sum(s, &least);
    return paths ? paths : down_to(s, least_makespan(s), least);
}

static int waits_needed(Space *s, int excess)
{
    if (excess % 2)
        return 1;
    Allowance a;
    volatile int jumped = 1, found = 0;
    if (!setjmp(begin(s, &a, 0)->here)) {
        Vectors all = vectors(s, excess, -1, 0);
        for (size_t v = 0; v < all.count && !found; v++)
            found = find_paths(s, all.at[v].costs, 0) != NULL;
        jumped = 0;
    }
    end(s, &a, jumped);
    return jumped ? joint_search(s, 0, 0, s->distances + excess + 1) == NULL : !found;
}

static int wait_label(Space *s)
{
    int least;
    Paths *paths = soon_best_sum(s, &least);
    if (!paths) {
        paths = least_makespan(s);
        if (joint_states(s) <= SMALL_SPACE) {
            Paths *restless = joint_search(s, 0, 0, s->distances + excess_of(s, paths) + 1);
            return !restless || joint_search(s, 0, 1, s->distances + excess_of(s, restless)) != NULL;
        }
        paths = down_to(s, paths, least);
    }
    int excess = excess_of(s, paths);
    return excess > 0 && waits_needed(s, excess);
}
