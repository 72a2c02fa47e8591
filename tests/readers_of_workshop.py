"""Parts of the workshop as readers write them: right in ways that are not ours, and wrong in usual ways."""

RIGHT = {
    "network_gradients": """
def network_gradients(x, W1, W2, t):
    z = torch.einsum("bi,ih->bh", x, W1)
    h = torch.clamp(z, min=0)
    error = h.matmul(W2) - t
    dW2 = torch.einsum("bh,bo->ho", h, error)
    back = error.matmul(W2.t())
    back[z <= 0] = 0
    return [x.t().mm(back), dW2]
""",
    "finite_differences": """
def finite_differences(loss, weights, change=1e-4):
    result = torch.zeros_like(weights)
    for i in range(weights.size(0)):
        for j in range(weights.size(1)):
            before = weights[i, j].item()
            weights[i, j] = before - change
            low = float(loss())
            weights[i, j] = before + change
            high = float(loss())
            weights[i, j] = before
            result[i, j] = (high - low) / change / 2
    return result
""",
    "logits_gradient": """
def logits_gradient(logits, labels, smoothing=0.0):
    B, V = logits.shape
    result = torch.softmax(logits, dim=1) - smoothing / V
    for b in range(B):
        result[b, labels[b]] -= 1 - smoothing
    return result / B
""",
    "positions": """
def positions(length, d_model):
    table = torch.zeros(length, d_model)
    place = torch.arange(length).float().unsqueeze(1)
    speed = torch.exp(torch.arange(0, d_model, 2).float() * -(math.log(10000.0) / d_model))
    table[:, 0::2] = torch.sin(place * speed)
    table[:, 1::2] = torch.cos(place * speed)
    return table
""",
    "embed": """
def embed(table, ids):
    batch, length = ids.shape
    width = table.weight.shape[1]
    return table(ids) * width ** 0.5 + positions(length, width).unsqueeze(0).to(table.weight.device)
""",
    "padding_mask": """
def padding_mask(ids, pad=0):
    return ids.ne(pad).unsqueeze(1).unsqueeze(2)
""",
    "causal_mask": """
def causal_mask(ids):
    n = ids.shape[-1]
    return torch.triu(torch.ones((n, n), device=ids.device), diagonal=1) == 0
""",
    "attend": """
def attend(query, key, value, visible):
    d_k = query.shape[-1]
    scores = torch.matmul(query, key.transpose(2, 3)) / d_k ** 0.5
    scores = scores + (1 - visible.to(scores.dtype)) * -1e9
    return torch.matmul(torch.softmax(scores, dim=3), value)
""",
    "split_heads": """
def split_heads(x, heads):
    B, T, D = x.shape
    return x.view(B, T, heads, D // heads).permute(0, 2, 1, 3)
""",
    "join_heads": """
def join_heads(x):
    B, H, T, K = x.shape
    return torch.cat([x[:, head] for head in range(H)], dim=-1)
""",
    "LayerNorm": """
class LayerNorm(nn.Module):
    def __init__(self, d_model, epsilon=1e-5):
        super().__init__()
        self.shift, self.scale = nn.Parameter(torch.zeros(d_model)), nn.Parameter(torch.ones(d_model))
        self.epsilon = epsilon

    def forward(self, x):
        mean = x.mean(dim=-1, keepdim=True)
        deviation = torch.sqrt(x.var(dim=-1, unbiased=False, keepdim=True) + self.epsilon)
        return self.scale * (x - mean) / deviation + self.shift
""",
    "Residual": """
class Residual(nn.Module):
    def __init__(self, d_model, dropout):
        super().__init__()
        self.norm, self.dropout = LayerNorm(d_model), nn.Dropout(dropout)

    def forward(self, x, sublayer):
        y = sublayer(x)
        y = self.dropout(y)
        y = y + x
        return self.norm(y)
""",
    "initialise": """
def initialise(model):
    for name, weight in model.named_parameters():
        if "embedding" in name:
            torch.nn.init.normal_(weight, 0, weight.shape[1] ** -0.5)
        elif weight.ndim == 2:
            torch.nn.init.xavier_uniform_(weight)
""",
    "Transformer": """
class Transformer(nn.Module):
    def __init__(self, source_words, target_words, d_model=128, layers=3, heads=4, d_ff=512, dropout=0.1):
        super(Transformer, self).__init__()
        self.dropout = nn.Dropout(dropout)
        self.encoder, self.decoder = nn.ModuleList(), nn.ModuleList()
        for _ in range(layers):
            self.encoder.append(EncoderLayer(d_model, heads, d_ff, dropout))
            self.decoder.append(DecoderLayer(d_model, heads, d_ff, dropout))
        self.target_embedding = nn.Embedding(target_words, d_model)
        self.source_embedding = nn.Embedding(source_words, d_model)
        initialise(self)

    def encode(self, source):
        mask = padding_mask(source)
        memory = self.dropout(embed(self.source_embedding, source))
        for layer in self.encoder:
            memory = layer(memory, mask)
        return memory, mask

    def decode(self, target, memory, memory_visible):
        y = self.dropout(embed(self.target_embedding, target))
        for layer in self.decoder:
            y = layer(y, memory, causal_mask(target), memory_visible)
        return y @ self.target_embedding.weight.T

    def forward(self, source, target):
        memory, mask = self.encode(source)
        return self.decode(target, memory, mask)
""",
    "smoothed_loss": """
def smoothed_loss(logits, labels, smoothing=0.1):
    return nn.functional.cross_entropy(logits, labels, ignore_index=PAD, label_smoothing=smoothing)
""",
    "loss_of": """
def loss_of(model, source, target):
    logits = model(source, target[:, :-1])
    return nn.functional.cross_entropy(
        logits.transpose(1, 2), target[:, 1:], ignore_index=0, label_smoothing=0.1
    )
""",
    "learning_rate": """
def learning_rate(step, d_model, warmup_steps):
    if step < warmup_steps:
        return step / warmup_steps**1.5 / d_model**0.5
    return 1 / (step * d_model) ** 0.5
""",
    "adam": """
def adam(weight, gradients, rate=0.01, beta_1=0.9, beta_2=0.98, eps=1e-9):
    with torch.enable_grad():
        moved = nn.Parameter(weight.clone())
    optimiser = torch.optim.Adam([moved], lr=rate, betas=(beta_1, beta_2), eps=eps)
    for gradient in gradients:
        moved.grad = gradient.clone()
        optimiser.step()
    return moved.data
""",
    "train_step": """
def train_step(model, optimiser, source, target, rate):
    for group in optimiser.param_groups:
        group["lr"] = rate
    model.zero_grad()
    loss = loss_of(model, source, target)
    loss.backward()
    optimiser.step()
    return loss.item()
""",
    "greedy": """
def greedy(model, source, longest=60):
    with torch.no_grad():
        memory, mask = model.encode(source)
        rows = torch.full((source.shape[0], 1), START, dtype=torch.long, device=source.device)
        ended = torch.zeros(source.shape[0], dtype=torch.bool, device=source.device)
        while rows.shape[1] < longest and not ended.all():
            best = model.decode(rows, memory, mask)[:, -1, :].max(dim=-1).indices
            best[ended] = PAD
            ended = ended | (best == END)
            rows = torch.cat((rows, best.unsqueeze(1)), dim=1)
        return rows
""",
}
"""Other ways to write the parts, which must pass."""

WRONG = [
    (
        "positions",
        "speed = torch.exp(torch.arange(0, d_model, 2)",
        "speed = torch.exp(torch.arange(0, d_model // 2)",
        "2i / D",
    ),
    ("positions", "table[:, 0::2] = torch.sin", "table[:, 0::2] = torch.cos", "row 0, column 0"),
    ("embed", " * width ** 0.5", "", "not multiplied by the root"),
    ("padding_mask", "ids.ne(pad)", "ids.eq(pad)", "inverted"),
    ("causal_mask", "diagonal=1", "diagonal=2", "lets a position see the next one"),
    ("causal_mask", "diagonal=1", "diagonal=0", "hides a position from itself"),
    ("causal_mask", ", device=ids.device", "", "GPU"),
    ("attend", "d_k ** 0.5", "d_k", "divide by its root"),
    ("attend", "(1 - visible.to(scores.dtype))", "visible.to(scores.dtype)", "wrong sign"),
    ("attend", "dim=3", "dim=2", "over the queries"),
    (
        "attend",
        "torch.softmax(scores, dim=3)",
        "torch.softmax(scores, dim=3).detach()",
        "no gradient|gradient of query",
    ),
    ("attend", "scores = scores + (1 - visible.to(scores.dtype)) * -1e9", "key += 1", "changes its argument key"),
    (
        "split_heads",
        "x.view(B, T, heads, D // heads).permute(0, 2, 1, 3)",
        "x.view(B, heads, T, D // heads)",
        "other tokens",
    ),
    ("join_heads", "torch.cat([x[:, head] for head in range(H)], dim=-1)", "x.reshape(B, T, H * K)", "mixes tokens"),
    ("LayerNorm", ", unbiased=False", "", "D - 1"),
    ("LayerNorm", "dim=-1", "dim=1", "over the tokens"),
    ("LayerNorm", " + self.shift", "", "shift is not added"),
    ("Residual", "y = y + x", "pass", "residual path is missing"),
    ("Residual", "y = self.dropout(y)", "pass", "Dropout is missing"),
    ("initialise", ", 0, weight.shape[1] ** -0.5", "", "deviation 1"),
    (
        "Transformer",
        "y = layer(y, memory, causal_mask(target), memory_visible)",
        "y = layer(y, memory, memory_visible, memory_visible)",
        "need the causal mask",
    ),
    ("Transformer", "causal_mask(target), ", "padding_mask(target), ", "gets a padding mask"),
    ("Transformer", "        initialise(self)\n", "", "first values are not drawn"),
    ("Transformer", "nn.ModuleList(), nn.ModuleList()", "[], []", "plain list"),
    ("smoothed_loss", "ignore_index=PAD, ", "", "Padding counts"),
    ("smoothed_loss", "entropy(logits", "entropy(logits.softmax(-1)", "applied twice"),
    ("loss_of", "target[:, 1:]", "target[:, :-1]", "not shifted"),
    ("learning_rate", "step < warmup_steps", "step > warmup_steps", "larger of the two"),
    ("train_step", "    model.zero_grad()\n", "", "zero_grad is missing"),
    ("train_step", "loss.item()", "loss", "returned as a tensor"),
    ("greedy", "[:, -1, :]", "[:, 0, :]", "first position"),
    ("greedy", " and not ended.all()", "", "does not stop at END"),
    ("greedy", "dtype=torch.long, device=source.device", "dtype=torch.long", "GPU"),
    ("greedy", "dtype=torch.bool, device=source.device", "dtype=torch.bool", "GPU"),
    ("finite_differences", "            weights[i, j] = before\n", "", "not put back"),
    ("logits_gradient", " / B", "", "that of the sum"),
    ("network_gradients", "    back[z <= 0] = 0\n", "", "ReLU is left out"),
    ("adam", "betas=(beta_1, beta_2)", "betas=(1 - beta_1, 1 - beta_2)", "exchanged"),
]
"""Mistakes in them: the part, what is replaced by what, and a piece of the verdict."""
