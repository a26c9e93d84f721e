package objects

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/credentials/processcreds"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

const deniedS3 = "credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE and ~/.aws, a web " +
	"identity, or the role of the container " +
	"or machine; they need s3:ListBucket on the bucket and s3:GetObject below it"

// anonymousFor is for how long a process without credentials sends requests without a signature before it looks for
// credentials again.
const anonymousFor = 5 * time.Minute

// awsAccess loads AWS's configuration and credentials where AWS's own programs look for them. All buckets share it.
type awsAccess struct {
	mu     sync.Mutex
	config *aws.Config
	until  time.Time // when credentials are looked for again, where there were none; else zero
}

// get returns a configuration with valid credentials, or with anonymous ones where none are configured.
func (a *awsAccess) get(ctx context.Context) (aws.Config, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.config == nil, !a.until.IsZero() && time.Now().After(a.until):
		if err := a.load(ctx); err != nil {
			return aws.Config{}, credentialsError(ctx, err)
		}
	case !a.until.IsZero():
		return *a.config, nil
	}
	_, err := a.config.Credentials.Retrieve(ctx)
	switch {
	case err == nil:
	case aws.IsCredentialsProvider(a.config.Credentials, (*ec2rolecreds.Provider)(nil)) && !profileNamed():
		// the last place, if no other one is configured
		a.config.Credentials, a.until = aws.AnonymousCredentials{}, time.Now().Add(anonymousFor)
	default:
		a.config = nil // files may be corrected
		return aws.Config{}, credentialsError(ctx, err)
	}
	return *a.config, nil
}

func (a *awsAccess) load(ctx context.Context) error {
	if (os.Getenv("AWS_ACCESS_KEY_ID") == "") != (os.Getenv("AWS_SECRET_ACCESS_KEY") == "") {
		return errors.New("only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set")
	}
	c, err := config.LoadDefaultConfig(ctx, config.WithHTTPClient(awsClient()), config.WithDefaultRegion(defaultRegion),
		config.WithLogger(logging.Nop{}),
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} })) // Stores retry
	if err == nil {
		a.config, a.until = &c, time.Time{}
	}
	return err
}

// awsClient is of a type whose timeouts AWS's library shortens for the service of a machine's role.
func awsClient() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConnsPerHost = idleConnections
		t.ResponseHeaderTimeout = headerPatience
		t.DisableCompression = true // an object's bytes are what is stored
	})
}

func profileNamed() bool {
	return os.Getenv("AWS_PROFILE") != "" || os.Getenv("AWS_DEFAULT_PROFILE") != ""
}

// credentialsError is the error of a configuration or credentials that cannot be loaded.
func credentialsError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	text := strings.Join(strings.Fields(err.Error()), " ") // some errors have several lines
	e := &Error{Kind: Denied, Err: errors.New("AWS credentials: " + text), hint: deniedS3}
	var process *processcreds.ProviderError
	var response *smithyhttp.ResponseError
	var send *smithyhttp.RequestSendError
	switch {
	case errors.As(err, &process): // it repeats what the process wrote
		e.Err = errors.New("AWS credentials: credential_process of the profile fails")
	case errors.As(err, &response):
		if status := response.HTTPStatusCode(); status >= 500 || status == http.StatusTooManyRequests {
			e.Kind = Down
		}
	case errors.As(err, &send):
		e.Kind = Down
	}
	return e
}

// awsCode is the code of an error that a service of AWS answered; empty for other errors.
func awsCode(err error) string {
	var answer smithy.APIError
	if errors.As(err, &answer) {
		return answer.ErrorCode()
	}
	return ""
}
