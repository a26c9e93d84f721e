// Floods measures how fast a good reader reads, and how much memory the daemon takes, while an attacker floods the daemon. The
// daemon, the attacker and the reader are processes of their own.
//
//	bin/floods                                     # all floods, printed
//	bin/floods http-idle nats-publish              # some; -list names them
//	bin/floods -page docs/results/security.md      # rewrites the table on the page
//
// Attacker and daemon share the processors, which a flood from another machine does not. So each round also measures the reader
// in company of a process that computes and takes as much processor time as the attacker did, and of an attacker with the
// lowest priority (nice 19).
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
	"syscall"
	"time"

	"loaderd/bench/page"
	"loaderd/bench/record"
)

// tableName is the block of the page, command what prints it.
const (
	tableName = "floods"
	command   = "bin/floods"
)

// options are those of a measurement.
type options struct {
	rounds int
	phase  time.Duration // how long the reader reads
	settle time.Duration // how long a flood lasts before the reader reads
}

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "floods:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] { // processes of a measurement
		case "daemon":
			return serve(ctx, args[1], len(args) > 2)
		case "attack":
			return attackAs(args[1], os.Stdin)
		case "burn":
			return burn(args[1])
		}
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	flags := flag.NewFlagSet("floods", flag.ContinueOnError)
	list := flags.Bool("list", false, "name the floods")
	path := flags.String("page", "", "rewrite the table of this `page`, and print nothing")
	o := options{}
	flags.IntVar(&o.rounds, "rounds", 2, "how often all phases are measured in turns")
	flags.DurationVar(&o.phase, "phase", time.Second, "how long the reader reads in each phase")
	flags.DurationVar(&o.settle, "settle", time.Second/2, "how long a flood lasts before the reader reads")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *list {
		for _, f := range floods {
			fmt.Printf("%-18s %s\n", f.name, f.about)
		}
		return nil
	}
	names := flags.Args()
	for _, name := range names {
		if !slices.ContainsFunc(floods, func(f flood) bool { return f.name == name }) {
			return fmt.Errorf("choose floods: no flood %q; -list names them", name)
		}
	}
	var onPage *page.Page
	if *path != "" {
		var err error
		if onPage, err = page.Read(*path); err != nil {
			return err
		}
		if err := onPage.CheckNames([]string{tableName}, []string{tableName}); err != nil {
			return err
		}
	}
	record.WarnOfLoad(os.Stderr)
	machine := record.ThisMachine()
	var results []result
	for _, f := range floods {
		if len(names) > 0 && !slices.Contains(names, f.name) {
			continue
		}
		r, err := measure(ctx, f, o)
		if err != nil {
			return fmt.Errorf("measure flood %s: %w", f.name, err)
		}
		results = append(results, r)
	}
	var printed strings.Builder
	if err := printTable(&printed, results, machine); err != nil {
		return err
	}
	if onPage == nil {
		_, err := io.WriteString(os.Stdout, printed.String())
		return err
	}
	return onPage.Replace(tableName, page.Content(printed.String(), command))
}

// printTable prints the results of floods as a table.
func printTable(out io.Writer, results []result, machine record.Machine) error {
	table := page.Markdown{}
	table.Row("flood", "alone, steps/s", "with the flood", "with a process that computes as much", "with the flood at nice 19", "processors of the attacker",
		"daemon per step alone, us", "daemon per step with the flood, us", "daemon alone, MiB", "daemon with the flood, MiB")
	for _, r := range results {
		alone := r.alone.perSecond()
		table.Row(r.name, fmt.Sprintf("%.0f", alone), share(r.flooded, alone), share(r.burned, alone), share(r.nice, alone),
			fmt.Sprintf("%.2f", r.attacker), fmt.Sprint(r.alone.perStep().Microseconds()), fmt.Sprint(r.flooded.perStep().Microseconds()), fmt.Sprint(r.alone.memory>>20), fmt.Sprint(max(r.flooded.memory, r.nice.memory)>>20))
	}
	return table.Print(out, machine)
}

// share is a speed as a part of another one.
func share(p phase, of float64) string { return fmt.Sprintf("%.0f %%", 100*p.perSecond()/of) }

var errNoTarget = errors.New("the daemon named no addresses")
