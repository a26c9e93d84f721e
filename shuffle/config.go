package shuffle

import "fmt"

// Config configures a windowed shuffle.
type Config struct {
	// Window is the number of buffered atoms from which the next one is drawn. 0 or 1 keeps the order.
	Window int `koanf:"window" json:"window"`
	// Seed keys the draws.
	Seed uint64 `koanf:"-" json:"-"`
}

// FieldError is an invalid field of a configuration.
type FieldError struct {
	Field string
	Value any
	Want  string
}

func (e FieldError) Error() string { return fmt.Sprintf("%s: %v: want %s", e.Field, e.Value, e.Want) }

// Validate returns every invalid field.
func (c Config) Validate() []FieldError {
	if c.Window < 0 || c.Window > 1<<24 {
		return []FieldError{{"window", c.Window, "0 (keep the order) to 2^24 atoms"}}
	}
	return nil
}
