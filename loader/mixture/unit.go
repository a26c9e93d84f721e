package mixture

import "fmt"

// ShareUnit is what the shares of a mixture are shares of.
type ShareUnit string

// Values of Mix.Share.
const (
	ShareTokens     ShareUnit = "tokens"
	ShareLossTokens ShareUnit = "loss_tokens" // tokens that have a loss
)

// IsZero reports whether the unit is the default. A configuration is stored without it.
func (u ShareUnit) IsZero() bool { return u == "" || u == ShareTokens }

// CountsLoss reports whether only tokens that have a loss count.
func (u ShareUnit) CountsLoss() bool { return u == ShareLossTokens }

// String returns the value as in a configuration, never empty.
func (u ShareUnit) String() string {
	if u.IsZero() {
		return string(ShareTokens)
	}
	return string(u)
}

// Select returns the number that the unit counts of some tokens.
func (u ShareUnit) Select(tokens, lossTokens int64) int64 {
	if u.CountsLoss() {
		return lossTokens
	}
	return tokens
}

// validate returns what a valid unit is, or the empty string if it is valid.
func (u ShareUnit) validate() string {
	if u.IsZero() || u == ShareLossTokens {
		return ""
	}
	return fmt.Sprintf("%s or %s", ShareTokens, ShareLossTokens)
}
