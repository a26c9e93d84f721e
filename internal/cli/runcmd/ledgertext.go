package runcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"loaderd/internal/cli/command"
	"loaderd/internal/config"
	"loaderd/internal/daemon"
	"loaderd/internal/ledger"
	"loaderd/loader"
	"loaderd/loader/runconfig"
	"loaderd/tokenizer"
)

// readTexts sets the text of every piece of a step, using the run's tokenizer.
func (a ledgerAsked) readTexts(ctx context.Context, client *command.FlightClient, s *ledger.Step) error {
	c, err := client.Open()
	if err != nil {
		return err
	}
	defer c.Close()
	var info loader.Info
	if err := c.Do(ctx, "info", map[string]any{"run": s.Run}, &info); err != nil {
		return fmt.Errorf("cannot get the run's tokenizer: %w", err)
	}
	model, err := tokenizerOf(info.Config.Tokenizer, a.tokenizer, a.options)
	if err != nil {
		return err
	}
	return s.ReadTexts(ctx, c, model)
}

// tokenizerOf loads a run's tokenizer under its own name, or under the given one. It tries the options that the name
// does not determine until the fingerprint matches the run's.
func tokenizerOf(t runconfig.Tokenizer, name string, o tokenizer.Options) (*tokenizer.Model, error) {
	if name = cmp.Or(name, t.Name); name == config.TokenizerNone {
		return nil, command.Usage(errors.New("the run's documents are pre-tokenized: name their tokenizer with --tokenizer"))
	}
	found := ""
	for _, add := range []bool{false, true} {
		for _, asText := range []bool{t.SpecialAsText, !t.SpecialAsText} {
			o.SpecialAsText, o.AddSpecialTokens = asText, add
			m, err := daemon.LoadModel(name, o)
			if err != nil {
				if found != "" {
					continue // unknown post_processor
				}
				return nil, fmt.Errorf("%w (name the run's tokenizer with --tokenizer)", err)
			}
			if m.Fingerprint() == t.Fingerprint {
				return m, nil
			}
			found = cmp.Or(found, m.Fingerprint())
		}
	}
	return nil, fmt.Errorf(
		"tokenizer %s has fingerprint %s, the run's tokenizer has %s: name that tokenizer with --tokenizer",
		name, found, t.Fingerprint)
}
