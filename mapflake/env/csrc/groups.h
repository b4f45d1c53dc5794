/* Paths for a group of agents that can meet, by given costs: depth-first over the joint positions of all but the last agent;
 * the last one is a set of cells, all that the others leave to it. The pair tables rule out most of what fails.
 *
 * The order of ties: at every step the agents but the last choose in their order; each prefers the cells nearer to its goal,
 * then waiting, then the others, and among equals up, down, left, right; a choice is good if all can still arrive. The last
 * agent takes, by the same preference, what they leave to it. */
#pragma once
#include "pairs.h"

static void prefer(Space *s, Agent *a, int cell)
{
    int distance = 0, near = 0, far = 0;
    for (; !has(a->balls.at[distance], cell); grow(s, &a->balls, distance, 1))
        distance++;
    Cell farther[4];
    Set next = around(s->width, bit(cell)) & s->field, nearer = distance ? a->balls.at[distance - 1] : 0;
    int to[4] = {cell - s->width, cell + s->width, cell - 1, cell + 1};
    for (int k = 0; k < 4; k++)
        if (to[k] < CELLS && has(next, to[k])) {
            if (has(nearer, to[k]))
                a->order[cell][near++] = (Cell)to[k];
            else
                farther[far++] = (Cell)to[k];
        }
    a->order[cell][near] = (Cell)cell;
    memcpy(a->order[cell] + near + 1, farther, far);
    a->options[cell] = (int8_t)(near + 1 + far);
}

static inline int preferred(Space *s, int i, int cell, const Cell **options)
{
    Agent *a = &s->agent[i];
    if (!a->options[cell])
        prefer(s, a, cell);
    *options = a->order[cell];
    return a->options[cell];
}

static Key packed(const Cell *cells, int count)
{
    Key key = 0;
    for (int k = 0; k < count; k++)
        key = key << 7 | cells[k];
    return key;
}

typedef struct {
    Cell cells[AGENTS], chosen[AGENTS]; /* of all members but the last */
    int8_t tried[AGENTS];
    int k;                    /* the member to choose for next, -1: nothing left */
    Set ways;                 /* where the last member can be */
    Set left[AGENTS][AGENTS]; /* [k][m]: where m can be next, once those before k have chosen */
} Level;

typedef struct {
    int who, cost;
    const Table *with[AGENTS]; /* the pair table with a later member, NULL if they cannot meet */
    const Set *layers;
} Member;

static Set ahead(Space *s, const Member *member, Set cells, int time)
{
    return time < member->cost ? spread(s->width, cells) & member->layers[time + 1] : cells;
}

static int next_choice(Space *s, Level *level, const Member *group, int count, int time)
{
    int k = level->k, last = count - 1, width = s->width, stride = s->stride; /* not read again after every write to a Cell */
    while (k >= 0 && k < last) {
        const Member *member = &group[k];
        const Cell *options;
        int cell = level->cells[k], most = preferred(s, member->who, cell, &options), found = 0;
        Set here = bit(cell), left = level->left[k][k];
        while (!found && level->tried[k] < most) {
            int to = options[level->tried[k]++];
            if (!has(left, to))
                continue;
            found = 1;
            level->chosen[k] = (Cell)to;
            for (int m = k + 1; found && m < count; m++) { /* what it leaves to the members after it */
                const Table *table = member->with[m];
                Set rest = level->left[k][m];
                if (table && time < table->horizon)
                    rest &= table->rows[(size_t)(time + 1) * stride + to];
                if (table && rest & here && (m == last ? !(level->ways & around(width, here) & ~bit(to)) : to == level->cells[m]))
                    rest ^= here;
                level->left[k + 1][m] = rest;
                found = rest != 0;
            }
        }
        if (!found)
            k--;
        else if (++k < last)
            level->tried[k] = 0;
    }
    level->k = k < 0 ? -1 : last - 1;
    return k == last;
}

static int last_options(Space *s, int who, int cell, Set set, const Level *level, int others, Cell *found)
{
    const Cell *options;
    int most = preferred(s, who, cell, &options), count = 0;
    for (int o = 0; o < most; o++) {
        int to = options[o], swaps = 0;
        for (int m = 0; m < others; m++)
            swaps |= level[0].cells[m] == to && level[1].cells[m] == cell && to != cell;
        if (has(set, to) && !swaps)
            found[count++] = (Cell)to;
    }
    return count;
}

static void last_path(Space *s, int who, Level *levels, int horizon, int others, Cell *path)
{
    Cell found[5];
    for (int t = horizon - 1; t >= 0; t--) { /* keep the cells from where it still arrives */
        Set kept = 0;
        for (Set rest = levels[t].ways; rest;) {
            int cell = pop(&rest);
            if (last_options(s, who, cell, levels[t + 1].ways, &levels[t], others, found))
                kept |= bit(cell);
        }
        levels[t].ways = kept;
    }
    path[0] = s->agent[who].start;
    for (int t = 0; t < horizon; t++) {
        last_options(s, who, path[t], levels[t + 1].ways, &levels[t], others, found);
        path[t + 1] = found[0];
    }
}

static int group_paths(Space *s, Member *group, int count, Paths *paths)
{
    int horizon = 0, last = count - 1;
    for (int k = 0; k < count; k++) {
        horizon = larger(horizon, group[k].cost);
        if (!group[k].layers[0])
            return 0;
    }
    Level *levels = get(&s->arena, (horizon + 1) * sizeof *levels);
    Map dead = {0}; /* numbers of sets: cells of the last member from where it has been tried */
    Sets tried = {0};
    for (int k = 0; k < last; k++)
        levels[0].cells[k] = s->agent[group[k].who].start;
    levels[0].ways = bit(s->agent[group[last].who].start);
    int depth = 0, fresh = 1;
    while (depth < horizon) {
        Level *level = &levels[depth];
        if (fresh) {
            level->k = 0;
            level->tried[0] = 0;
            for (int k = 0; k < count; k++)
                level->left[0][k] = ahead(s, &group[k], k < last ? bit(level->cells[k]) : level->ways, depth);
            spend(s, 1);
        }
        fresh = 0;
        while (!fresh && next_choice(s, level, group, count, depth)) {
            Set left = level->left[last][last];
            uintptr_t number = map_get(&dead, packed(level->chosen, last) | (Key)(depth + 1) << 80);
            if (number)
                left &= ~tried.at[number - 1];
            if (left) {
                fresh = 1;
                levels[depth + 1].ways = left;
            }
        }
        if (fresh) {
            memcpy(levels[++depth].cells, level->chosen, sizeof level->chosen);
        } else {
            uintptr_t *number = map_at(&s->arena, &dead, packed(level->cells, last) | (Key)depth << 80);
            if (!*number) {
                append(s, &tried, 0);
                *number = tried.count;
            }
            tried.at[*number - 1] |= level->ways;
            if (--depth < 0)
                return 0;
        }
    }
    for (int k = 0; k < count; k++) {
        Cell *path = get(&s->arena, horizon + 1);
        for (int t = 0; t <= horizon && k < last; t++)
            path[t] = levels[t].cells[k];
        if (k == last)
            last_path(s, group[last].who, levels, horizon, last, path);
        paths->cells[group[k].who] = path;
        paths->count[group[k].who] = horizon + 1;
    }
    return 1;
}
