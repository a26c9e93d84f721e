// Floods measures a reader's speed and the daemon's memory while an attacker floods the daemon. The daemon, the
// attacker and the reader are separate processes.
//
//	bin/floods                                     # all floods, printed
//	bin/floods http-idle nats-publish              # some; -list names them
//	bin/floods -page docs/results/security.md      # rewrites the table on the page
//
// Daemon and reader run on all processors but the last, in every phase. The attacker runs on the last one, because a
// flood from another machine would use no processor of the daemon's machine.
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

// tableName is the block of the page, command the command that prints it.
const (
	tableName = "floods"
	command   = "bin/floods"
)

// options are the options of a measurement.
type options struct {
	rounds int
	phase  time.Duration // duration of the reader's measurement
	settle time.Duration // duration of a flood before the measurement

	attacker int // the attacker's processor
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
			return attackAs(args[1], args[2], os.Stdin)
		}
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	flags := flag.NewFlagSet("floods", flag.ContinueOnError)
	list := flags.Bool("list", false, "name the floods")
	path := flags.String("page", "", "rewrite the table of this `page`, and print nothing")
	o := options{}
	flags.IntVar(&o.rounds, "rounds", 5, "how often both phases are measured in turns")
	flags.DurationVar(&o.phase, "phase", 2*time.Second, "how long the reader reads in each phase")
	flags.DurationVar(&o.settle, "settle", 4*time.Second, "how long a flood lasts before the reader reads")
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
	all, err := processors()
	if err != nil {
		return err
	}
	if len(all) < 2 {
		return errors.New("daemon and attacker take a processor each: run it where there are two or more")
	}
	o.attacker = all[len(all)-1]
	if err := pin(all[:len(all)-1]); err != nil { // the daemon inherits it
		return err
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
	table.Row("flood", "alone, steps/s", "with the flood", "lowest to highest", "daemon per step alone, us",
		"daemon per step with the flood, us", "daemon alone, MiB",
		"daemon with the flood, MiB")
	for _, r := range results {
		alone, flooded := sum(r.alone), sum(r.flooded)
		median, lowest, highest := r.share()
		table.Row(r.name, fmt.Sprintf("%.0f", alone.perSecond()), fmt.Sprintf("%.0f %%", 100*median),
			fmt.Sprintf("%.0f to %.0f", 100*lowest, 100*highest),
			fmt.Sprint(alone.perStep().Microseconds()), fmt.Sprint(flooded.perStep().Microseconds()),
			fmt.Sprint(alone.memory>>20), fmt.Sprint(flooded.memory>>20))
	}
	return table.Print(out, machine)
}

var errNoTarget = errors.New("the daemon named no addresses")
