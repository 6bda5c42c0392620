package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// rows is the length of the table.
const rows = 2_000_000

// database is a service whose pool has four connections to PostgreSQL. All values of the filter but one are found by an
// index.
type database struct{ pool *pgxpool.Pool }

// openDatabase connects to PostgreSQL, and makes the table unless it is there.
func openDatabase(ctx context.Context, url string) (*database, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = workers
	// One query takes one worker, as in a database that many use.
	cfg.ConnConfig.RuntimeParams["max_parallel_workers_per_gather"] = "0"
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	db := &database{pool}
	if err := db.fill(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("the table of reports: %w", err)
	}
	return db, nil
}

func (d *database) fill(ctx context.Context) error {
	var there bool
	err := d.pool.QueryRow(ctx, "SELECT to_regclass('report') IS NOT NULL").Scan(&there)
	if err != nil || there {
		return err
	}
	fmt.Fprintf(os.Stderr, "filling a table of %d rows\n", rows)
	tx, err := d.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx) // does nothing after Commit
	for _, command := range []string{
		"CREATE TABLE report (id bigint, region int, note text)",
		fmt.Sprintf("INSERT INTO report SELECT i, i %% 20000, md5(i::text) || md5((i * 7)::text) FROM generate_series(1, %d) i",
			rows),
		"CREATE INDEX report_region ON report (region)",
	} {
		if _, err := tx.Exec(ctx, command); err != nil {
			return err
		}
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	_, err = d.pool.Exec(ctx, "VACUUM ANALYZE report")
	return err
}

// count counts the rows of a filter: by the index, or by reading all of them.
func (d *database) count(ctx context.Context, filter string) (n int, err error) {
	if filter == "full" {
		return n, d.pool.QueryRow(ctx, "SELECT count(*) FROM report WHERE note ~ 'ab.*cd.*ef.*0'").Scan(&n)
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(filter)) // never fails
	return n, d.pool.QueryRow(ctx, "SELECT count(*) FROM report WHERE region = $1", h.Sum32()%20000).Scan(&n)
}

func (d *database) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, err := d.count(r.Context(), r.URL.Query().Get("filter"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, n)
}

// alone returns the times of a cheap and of the expensive query, when nothing else runs.
func (d *database) alone(ctx context.Context) (cheap, full time.Duration, err error) {
	for range 3 { // the last one, because the first reads the table from disk
		for filter, took := range map[string]*time.Duration{"popular": &cheap, "full": &full} {
			began := time.Now()
			if _, err := d.count(ctx, filter); err != nil {
				return 0, 0, err
			}
			*took = time.Since(began)
		}
	}
	return cheap, full, nil
}
