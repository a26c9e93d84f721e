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

const deniedS3 = "credentials are read from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE and ~/.aws, a " +
	"web identity, or the role of the container or machine; they need s3:ListBucket on the bucket and s3:GetObject " +
	"below it"

// anonymousDuration is how long a process without credentials sends unsigned requests before it searches for
// credentials again.
const anonymousDuration = 5 * time.Minute

// awsAccess loads AWS's configuration and credentials from the locations of AWS's own programs. All buckets share it.
type awsAccess struct {
	mu      sync.Mutex
	config  *aws.Config
	retryAt time.Time // when to search for credentials again if none were found; otherwise zero
}

// getConfig returns a configuration with valid credentials, or with anonymous ones if none are configured.
func (a *awsAccess) getConfig(ctx context.Context) (aws.Config, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.config == nil, !a.retryAt.IsZero() && time.Now().After(a.retryAt):
		if err := a.load(ctx); err != nil {
			return aws.Config{}, credentialsError(ctx, err)
		}
	case !a.retryAt.IsZero():
		return *a.config, nil
	}
	_, err := a.config.Credentials.Retrieve(ctx)
	switch {
	case err == nil:
	case aws.IsCredentialsProvider(a.config.Credentials, (*ec2rolecreds.Provider)(nil)) && !hasProfile():
		// The provider is the last one of the chain and no other is configured.
		a.config.Credentials, a.retryAt = aws.AnonymousCredentials{}, time.Now().Add(anonymousDuration)
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
		a.config, a.retryAt = &c, time.Time{}
	}
	return err
}

// awsClient returns a client of the type whose timeouts AWS's library shortens for the metadata service of a machine.
func awsClient() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConnsPerHost = maxIdleConnections
		t.ResponseHeaderTimeout = headerTimeout
		t.DisableCompression = true // return an object's bytes as stored
	})
}

func hasProfile() bool {
	return os.Getenv("AWS_PROFILE") != "" || os.Getenv("AWS_DEFAULT_PROFILE") != ""
}

// credentialsError returns the error for a configuration or credentials that cannot be loaded.
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
	case errors.As(err, &process): // its message repeats the output of the process
		e.Err = errors.New("AWS credentials: credential_process of the profile fails")
	case errors.As(err, &response):
		if status := response.HTTPStatusCode(); status >= 500 || status == http.StatusTooManyRequests {
			e.Kind = Unavailable
		}
	case errors.As(err, &send):
		e.Kind = Unavailable
	}
	return e
}

// awsErrorCode returns the error code in the response of an AWS service; empty for other errors.
func awsErrorCode(err error) string {
	var answer smithy.APIError
	if errors.As(err, &answer) {
		return answer.ErrorCode()
	}
	return ""
}
