package arrowout

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"loaderd/internal/auth"
	"loaderd/loader"
	"loaderd/loader/fault"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
	"loaderd/packonline"
)

var about = func() loader.Info {
	info := loader.Info{Run: "r1", FormerNames: []string{"r0"}, ID: strings.Repeat("1a", 16), HasPlan: true,
		Fingerprint: "f00d",
		Config: runconfig.Config{
			Tokenizer: runconfig.Tokenizer{Name: "gpt2", VocabSize: 50257, Pad: 50256},
			Packing:   packonline.Config{Buckets: []int{2048}},
			Steps:     runconfig.Steps{Rows: 12}}, Sources: []plan.SourceInfo{
			{SourceBegin: plan.SourceBegin{Name: "docs", Start: 1}}}}
	info.Schedule = runconfig.NewSchedule(info.Config)
	return info
}()

func TestParseTicket_AcceptsAndRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, ticket string
		reason       fault.Reason // empty: accepted
		says         string
	}{
		{"nothing asked", `{}`, "", ""},
		{"everything", ` {"run":"r1","fingerprint":"f00d","rank":2,"world":3,"step":9007199254740991,"steps":1,"columns":["labels"],"job":"eval","peer":1,
			"session":"` + strings.Repeat("5e", 16) + `","taken":9007199254740990} `, "", ""},
		{"a run without a name", `{"run":""}`, fault.InvalidTicket, "omit the key"},
		{"narrow ids", `{"columns":["input_ids:uint16"]}`, "", ""},

		{"no bytes", ``, fault.InvalidTicket, "not a JSON object"},
		{"garbage", "\x00\xff\x80", fault.InvalidTicket, "not a JSON object"},
		{"a list", `[]`, fault.InvalidTicket, "not a JSON object"},
		{"a number", `7`, fault.InvalidTicket, "not a JSON object"},
		{"null", `null`, fault.InvalidTicket, "not a JSON object"},
		{"cut off", `{"rank":`, fault.InvalidTicket, `value of "rank"`},
		{"not closed", `{"rank":0`, fault.InvalidTicket, "malformed JSON"},
		{"two objects", `{}{}`, fault.InvalidTicket, "after the JSON object"},
		{"unknown key", `{"ranks":1}`, fault.InvalidTicket,
			`unknown key "ranks", want one of columns, fingerprint, job, peer, rank, read, run, run_id, session, step, steps, taken, world`},
		{"a session of four digits", `{"session":"5e5e"}`, fault.InvalidTicket, "want 32 hexadecimal digits"},
		{"no session", `{"session":""}`, fault.InvalidTicket, "want 32 hexadecimal digits"},
		{"wrong case", `{"Rank":1}`, fault.InvalidTicket, "unknown key"},
		{"key twice", `{"rank":0,"rank":0}`, fault.InvalidTicket, "twice"},
		{"null value", `{"run":null}`, fault.InvalidTicket, "omit the key"},
		{"rank of a string", `{"rank":"0"}`, fault.InvalidTicket, "want an integer of 0"},
		{"negative rank", `{"rank":-1}`, fault.InvalidTicket, "want an integer of 0"},
		{"fraction", `{"step":1.5}`, fault.InvalidTicket, "want an integer"},
		{"exponent", `{"step":1e3}`, fault.InvalidTicket, "want an integer"},
		{"huge step", `{"step":9007199254740992}`, fault.InvalidTicket, "9007199254740991"},
		{"beyond uint64", `{"step":99999999999999999999999999}`, fault.InvalidTicket, "want an integer"},
		{"negative steps", `{"steps":-1}`, fault.InvalidTicket, "want an integer"},
		{"world 0", `{"world":0}`, fault.InvalidTicket, "want an integer of 1"},
		{"huge world", `{"world":1048577}`, fault.InvalidTicket, "want an integer of 1 to 1048576"},
		{"rank of world", `{"rank":3,"world":3}`, fault.InvalidTicket, "rank 3 of world 3: want a rank of 0 to 2"},
		{"rank without world", `{"rank":1}`, fault.InvalidTicket, "rank 1 of world 1"},
		{"run of a number", `{"run":1}`, fault.InvalidTicket, "as a string"},
		{"a job without a name", `{"job":""}`, fault.InvalidTicket, `"job" is "\"\""`},
		{"a job of a number", `{"job":1}`, fault.InvalidTicket, "want a string"},
		{"a job's name that no job has", `{"job":"a\nb"}`, fault.InvalidTicket, "printable ASCII"},
		{"a long name of a job", `{"job":"` + strings.Repeat("j", 65) + `"}`, fault.InvalidTicket, "1 to 64 bytes"},
		{"columns of a string", `{"columns":"input_ids"}`, fault.InvalidTicket, "want a list of strings"},
		{"columns with null", `{"columns":[null]}`, fault.InvalidTicket, "want a list of strings"},
		{"no columns", `{"columns":[]}`, fault.InvalidTicket, "at least one column"},
		{"unknown column", `{"columns":["ids"]}`, fault.InvalidTicket, `unknown column "ids": want columns from input_ids,`},
		{"column twice", `{"columns":["labels","labels"]}`, fault.InvalidTicket, "labels is requested twice"},
		{"ids twice", `{"columns":["input_ids","input_ids:uint16"]}`, fault.InvalidTicket, "input_ids is requested twice"},
		{"long garbage", `{"` + strings.Repeat("é", 5000) + `":1}`, fault.InvalidTicket, "unknown key"},

		{"a name that the run had", `{"run":"r0"}`, "", ""},
		{"other run", `{"run":"r2"}`, fault.RunMismatch, `serves run "r1", not "r2"`},
		{"the run by its id", `{"run_id":"` + about.ID + `"}`, "", ""},
		{"an empty id", `{"run_id":""}`, fault.InvalidTicket, "want the run_id that info returns"},
		{"no id", `{"run_id":"1A"}`, fault.InvalidTicket, "want the run_id that info returns"},
		{"another id", `{"run_id":"` + strings.Repeat("2b", 16) + `"}`, fault.RunReplaced,
			"deleted and restarted: it has the id 1a1a"},
		{"other plan", `{"fingerprint":"beef"}`, fault.PlanMismatch, "requires the plan beef"},
		{"world of 5", `{"world":5}`, fault.WorldMismatch, "use one of these world sizes: 1 2 3 4 6 12"},
		{"world of 24", `{"world":24}`, fault.WorldMismatch, "12 rows"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := parseTicket([]byte(tc.ticket), about, auth.Identity{Role: auth.Operate})
			if tc.reason == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var typed *fault.Error
			if !errors.As(err, &typed) || typed.Reason != tc.reason || !strings.Contains(typed.Error(), tc.says) {
				t.Fatalf("got %v\nwant %s: ...%s...", err, tc.reason, tc.says)
			}
			if typed.Advice == "" || len(typed.Message) > 500 {
				t.Errorf("want advice and a short message, got %q", typed.Error())
			}
		})
	}
}

// A request that names a run by id is refused permanently only if the plan is known to belong to another run.
func TestParseTicket_UnknownRunIDBeforePlanIsTransient(t *testing.T) {
	ticket := []byte(`{"run_id":"` + strings.Repeat("2b", 16) + `"}`)
	for _, tc := range []struct {
		what  string
		info  loader.Info
		wants fault.Reason
	}{
		{"not begun, or not read yet", loader.Info{Run: "r1", Config: about.Config}, fault.NotLeading},
		{"begun again", about, fault.RunReplaced},
	} {
		_, err := parseTicket(ticket, tc.info, auth.Identity{Role: auth.Operate})
		var typed *fault.Error
		if !errors.As(err, &typed) || typed.Reason != tc.wants {
			t.Errorf("%s: got %v, want %s", tc.what, err, tc.wants)
		}
	}
}

func TestParseTicket_Defaults(t *testing.T) {
	got, err := parseTicket([]byte("{}"), about, auth.Identity{Role: auth.Operate})
	if err != nil {
		t.Fatal(err)
	}
	if got.Run != "r1" || got.Rank != 0 || got.World != 1 || got.Step != 0 || got.Steps != 0 ||
		!slices.Equal(got.Columns, []string{"input_ids", "segment_ids"}) {
		t.Errorf("got %+v", got)
	}
}

func TestParseTicket_NarrowIDsNeedSmallVocabulary(t *testing.T) {
	for _, tc := range []struct {
		vocab int
		pad   int32
		ok    bool
	}{{65536, 65535, true}, {65537, 0, false}, {50257, 70000, false}, {50257, -1, false}} {
		info := about
		info.Config.Tokenizer.VocabSize, info.Config.Tokenizer.Pad = tc.vocab, tc.pad
		if _, err := parseTicket([]byte(`{"columns":["input_ids:uint16"]}`), info,
			auth.Identity{Role: auth.Operate}); (err == nil) != tc.ok {
			t.Errorf("vocabulary %d, pad %d: got %v", tc.vocab, tc.pad, err)
		}
	}
}

func FuzzTicket(f *testing.F) {
	for _, s := range []string{`{}`,
		`{"run":"r1","run_id":"1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a","rank":1,"world":2,"step":3,"steps":4,"columns":["labels","documents"],"job":"eval"}`, `{"rank":-1}`, `{"step":9,"read":4}`, "\xff", `{"a":{`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := parseTicket(b, about, auth.Identity{Role: auth.Operate})
		if err != nil {
			if s := statusOf(err, 1); reasonOf(s) == string(fault.Internal) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		if got.Rank < 0 || got.Rank >= got.World || len(got.columns) == 0 || 12%got.World != 0 {
			t.Fatalf("accepted %+v", got)
		}
		again, err := parseTicket(encodeTicket(got.Ticket), about, auth.Identity{Role: auth.Operate})
		if err != nil || string(encodeTicket(again.Ticket)) != string(encodeTicket(got.Ticket)) {
			t.Fatalf("ticket %s reads back as %s, %v", encodeTicket(got.Ticket), encodeTicket(again.Ticket), err)
		}
	})
}
