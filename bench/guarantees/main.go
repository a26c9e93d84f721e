// Guarantees measures the cost and the quality of the guarantees: checkpoints, recovery, the plan log, ranks in lock
// step, shares and waits of buckets, attention cost by rank, mixtures. It prints the tables of bench/notes/steps.md and
// docs/results/mixtures.md as Markdown.
//
//	bin/guarantees                       # all tables
//	bin/guarantees order balance         # some; -list names them
//	bin/guarantees -documents 60000 start
//	bin/guarantees -page docs/results/mixtures.md mixspeed    # rewrites the table on the page
//
// Documents have the lengths of FineWeb-Edu, drawn with seed 1. Tables of the planner alone need seconds. The others
// publish -documents tokenized documents to a separate JetStream server, in a temporary folder, or in -folder, which
// is kept.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	"loaderd/bench/page"
	"loaderd/bench/record"
)

// table is one table, or several from one measurement.
type table struct {
	name  string
	title string
	print func(ctx context.Context, b *bench, out io.Writer) error
}

// command returns the command that prints the table.
func (t table) command() string { return "bin/guarantees " + t.name }

var tables = []table{
	{"checkpoint", "Checkpoints", printCheckpoints},
	{"start", "Start to first batch", printStart},
	{"recovery", "Recovery by steps since the checkpoint", printRecovery},
	{"planlog", "Cost of the plan log", printPlanLog},
	{"lockstep", "Ranks in lock step", printLockstep},
	{"tail", "Waits of a trainer that computes between its steps", printTail},
	{"shares", "Buckets: shares and waits", printShares},
	{"order", "Buckets: order of steps", printOrder},
	{"balance", "Attention cost by rank", printBalance},
	{"mixshares", "Mixtures: shares of steps", printMixtureShares},
	{"mixlengths", "Mixtures: shares of steps by lengths, pools and windows", printMixtureLengths},
	{"mixspeed", "Mixtures: speed and size of plans", printMixtureSpeed},
	{"mixpicture", "Mixtures: through a change, a rest and an anneal", printMixturePicture},
	{"mixneighbours", "Mixtures: neighbours of a drawn epoch", printMixtureNeighbours},
}

// bench is the options and state that the tables share.
type bench struct {
	documents int // to publish
	planned   int // for tables of the planner alone
	steps     int // read in lock step
	repeats   int
	folder    string
	page      string // the page to rewrite
	picture   string // SVG file of table mixpicture
	json      bool   // output of table tail
	filled    bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	list := flag.Bool("list", false, "name the tables")
	b := &bench{}
	flag.IntVar(&b.documents, "documents", 1_400_000,
		"documents to publish; 10,000 steps of 64 rows of 2,048 take 1,340,000 of them and 5.3 GB")
	flag.IntVar(&b.planned, "planned", 2_000_000, "documents for the tables of the planner alone")
	flag.IntVar(&b.steps, "steps", 2000, "steps that ranks read in lock step; each takes about 134 documents")
	flag.StringVar(&b.page, "page", "",
		"rewrite the tables that this page has, or those of them that are named, and print nothing")
	flag.StringVar(&b.picture, "picture", "", "draw the picture of table mixpicture into this SVG `file`")
	flag.StringVar(&b.folder, "folder", "",
		"publish the documents into this `folder`, which stays; they are taken from there when it has them")
	flag.IntVar(&b.repeats, "repeats", 3, "times that each start is measured; tables show the median")
	flag.BoolVar(&b.json, "json", false, "print table tail as JSON, for clients with a rank's windows alone")
	flag.Parse()
	if err := run(ctx, b, flag.Args(), *list, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "guarantees:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, b *bench, names []string, list bool, out io.Writer) (err error) {
	if list {
		for _, t := range tables {
			fmt.Fprintf(out, "%-12s %s\n", t.name, t.title)
		}
		return nil
	}
	if b.json {
		names = []string{"tail"}
	}
	for _, name := range names {
		if !slices.ContainsFunc(tables, func(t table) bool { return t.name == name }) {
			return fmt.Errorf("choose tables: no table %q; -list names them", name)
		}
	}
	var onPage *page.Page
	if b.page != "" {
		if onPage, err = page.Read(b.page); err != nil {
			return err
		}
		if len(names) == 0 {
			for _, block := range onPage.Blocks() {
				names = append(names, block.Name)
			}
		}
		known := make([]string, len(tables))
		for i, t := range tables {
			known[i] = t.name
		}
		if err := onPage.CheckNames(known, names); err != nil {
			return err
		}
	}
	record.WarnOfLoad(os.Stderr)
	if b.folder == "" {
		if b.folder, err = os.MkdirTemp("", "loaderd-guarantees"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(b.folder)) }()
	}
	for _, t := range tables {
		if len(names) > 0 && !slices.Contains(names, t.name) {
			continue
		}
		if b.page != "" {
			var printed strings.Builder
			if err := t.print(ctx, b, &printed); err != nil {
				return fmt.Errorf("print table %s: %w", t.name, err)
			}
			if err := onPage.Replace(t.name, page.Content(printed.String(), t.command())); err != nil {
				return err
			}
			continue
		}
		if !b.json {
			fmt.Fprintf(out, "### %s\n\n", t.title)
		}
		if err := t.print(ctx, b, out); err != nil {
			return fmt.Errorf("print table %s: %w", t.name, err)
		}
		fmt.Fprintln(out)
	}
	return nil
}
