(** * The race: if the scores say nothing about the texts, the winner's text has the law of one text

    The idea: let one entry in [K] count at a time, with any weight that depends on the scores alone. Given the
    scores, the mean of a function of that entry's text is what it is without them, so it can be taken out. No
    property of "smallest" is needed: any choice from the scores alone will do. *)

From Coq Require Import List Arith Bool Reals Lra Lia.
From SpectrVerify Require Import Laws Rules Means.
Import ListNotations.
Open Scope R_scope.

(** ** Independent draws *)

Section Independent.
  Context {A : Type}.

  Lemma mean_independent_cons (d : law R A) ds (f : list A -> R) :
    mean (independent (d :: ds)) f = mean d (fun a => mean (independent ds) (fun l => f (a :: l))).
  Proof.
    cbn [independent]. rewrite mean_bind. apply mean_ext. intros a. rewrite mean_bind.
    apply mean_ext. intros l. apply mean_ret.
  Qed.

  Lemma mean_independent_ext (ds : list (law R A)) f g :
    (forall l, length l = length ds -> f l = g l) -> mean (independent ds) f = mean (independent ds) g.
  Proof.
    revert f g. induction ds as [| d ds IH]; intros f g H.
    - cbn [independent]. rewrite !mean_ret. now apply H.
    - rewrite !mean_independent_cons. apply mean_ext. intros a. apply IH. intros l Hl. apply H. simpl. now rewrite Hl.
  Qed.

  Lemma independent_total (ds : list (law R A)) :
    (forall d, In d ds -> mean d (fun _ => 1) = 1) -> mean (independent ds) (fun _ => 1) = 1.
  Proof.
    induction ds as [| d ds IH]; intros H; [cbn [independent]; now rewrite mean_ret |].
    rewrite mean_independent_cons, (mean_ext _ _ (fun _ => 1)); [apply H; now left |].
    intros _. apply IH. intros d' Hd. apply H. now right.
  Qed.

  Lemma mean_independent_product (d : law R A) (h : A -> R) K :
    mean (independent (repeat d K)) (fun l => product (map h l)) = mean d h ^ K.
  Proof.
    induction K as [| K IH]; [cbn [repeat independent]; now rewrite mean_ret |]. cbn [repeat pow].
    rewrite mean_independent_cons, <- mean_scale_r. apply mean_ext. intros a.
    rewrite <- IH, <- mean_scale. reflexivity.
  Qed.
End Independent.

(** Drawing all the [a]s and then each [k a], or one pair after the other, comes to the same. *)
Lemma mean_independent_bind {A B} (d : law R A) (k : A -> law R B) K (f : list B -> R) :
  mean (independent (repeat d K)) (fun l => mean (independent (map k l)) f)
  = mean (independent (repeat (bind d k) K)) f.
Proof.
  revert f. induction K as [| K IH]; intros f; [cbn [repeat independent]; now rewrite mean_ret |].
  cbn [repeat]. rewrite !mean_independent_cons, mean_bind. apply mean_ext. intros a.
  cbn [map].
  rewrite (mean_ext _ _ (fun l => mean (k a) (fun b => mean (independent (map k l)) (fun l' => f (b :: l')))))
    by (intros; apply mean_independent_cons).
  rewrite mean_swap. apply mean_ext. intros b. apply IH.
Qed.

(** ** Choices that see the scores alone *)

(** Weights for [K >= 1] entries, none negative, not all zero. *)
Definition is_selection (select : list nat -> list R) : Prop :=
  forall scores, scores <> [] ->
    length (select scores) = length scores
    /\ (forall w, In w (select scores) -> 0 <= w)
    /\ 0 < sum (select scores) (fun w => w).

(** Only a smallest score can win. *)
Definition picks_smallest (select : list nat -> list R) : Prop :=
  forall scores w j, In (w, j) (combine (select scores) scores) -> w <> 0 -> forall i, In i scores -> (j <= i)%nat.

Definition shares (weights : list R) : list R := map (fun w => w / sum weights (fun w => w)) weights.

Lemma sum_combine_fst {A} (ws : list R) (l : list A) (h : R -> R) :
  length ws = length l -> sum (combine ws l) (fun wa => h (fst wa)) = sum ws h.
Proof.
  revert l. induction ws as [| w ws IH]; intros [| a l] H; try easy.
  cbn [combine]. rewrite !sum_cons, IH by now inversion H. reflexivity.
Qed.

Lemma sum_combine_shares {A} (ws : list R) (l : list A) (h : A -> R) (t : R) :
  sum (combine (map (fun w => w / t) ws) l) (fun wa => fst wa * h (snd wa))
  = sum (combine ws l) (fun wa => fst wa / t * h (snd wa)).
Proof.
  revert l. induction ws as [| w ws IH]; intros [| a l]; try reflexivity.
  cbn [map combine]. rewrite !sum_cons, IH. reflexivity.
Qed.

Lemma in_shares {A} (ws : list R) (l : list (A * nat)) w u j :
  In (w, (u, j)) (combine (shares ws) l) -> w <> 0 ->
  exists w', In (w', j) (combine ws (map snd l)) /\ w' <> 0.
Proof.
  unfold shares. generalize (sum ws (fun w => w)) as t. intros t. revert l.
  induction ws as [| w' ws IH]; intros [| [u' j'] l] Hin Hw; try easy. destruct Hin as [E | Hin].
  - inversion E; subst. exists w'. split; [now left |]. intros ->. apply Hw. unfold Rdiv. ring.
  - destruct (IH l Hin Hw) as (w'' & Hin' & Hw'). exists w''. split; [now right | exact Hw'].
Qed.

Section Race.
  Context {A : Type}.
  Variables (select : list nat -> list R).
  Hypothesis Hselect : is_selection select.

  Lemma mean_race (entries : list (A * nat)) (f : A -> R) : entries <> [] ->
    mean (race select entries) f
    = sum (combine (shares (select (map snd entries))) entries) (fun we => fst we * f (fst (snd we))).
  Proof.
    intros H. destruct (Hselect (map snd entries)) as (Hl & _ & _); [now destruct entries |].
    rewrite map_length in Hl. unfold race, choose, shares.
    rewrite !mean_bind, mean_categorical. rewrite (sum_combine_shares _ _ (fun e => f (fst e))).
    apply sum_ext. intros we _. rewrite !mean_ret. f_equal. f_equal.
    apply (sum_combine_fst _ _ (fun w => w)), Hl.
  Qed.

  Lemma shares_total (entries : list (A * nat)) : entries <> [] ->
    sum (combine (shares (select (map snd entries))) entries) fst = 1.
  Proof.
    intros H. destruct (Hselect (map snd entries)) as (Hl & _ & Hpos); [now destruct entries |].
    rewrite map_length in Hl.
    rewrite (sum_combine_fst _ _ (fun w => w)) by (unfold shares; rewrite map_length; exact Hl).
    unfold shares. rewrite sum_map. unfold Rdiv. rewrite sum_scale_r. field. lra.
  Qed.

  (** Entry by entry, [g] may be replaced by what it is on average given the score. *)
  Lemma given_the_scores (g g' : A * nat -> R) (es : list (law R (A * nat))) :
    (forall e, In e es -> forall a, mean e (fun x => a (snd x) * g x) = mean e (fun x => a (snd x) * g' x)) ->
    forall weights : list nat -> list R,
    mean (independent es) (fun l => sum (combine (weights (map snd l)) l) (fun we => fst we * g (snd we)))
    = mean (independent es) (fun l => sum (combine (weights (map snd l)) l) (fun we => fst we * g' (snd we))).
  Proof.
    induction es as [| e es IH]; intros Hg weights.
    - cbn [independent]. rewrite !mean_ret. cbn [map]. now destruct (weights []).
    - rewrite !mean_independent_cons.
      (* the first entry, and the others *)
      assert (split : forall h : A * nat -> R,
        mean e (fun x => mean (independent es) (fun l =>
          sum (combine (weights (map snd (x :: l))) (x :: l)) (fun we => fst we * h (snd we))))
        = mean e (fun x => mean (independent es) (fun l => hd 0 (weights (snd x :: map snd l))) * h x)
          + mean e (fun x => mean (independent es) (fun l =>
              sum (combine (tl (weights (snd x :: map snd l))) l) (fun we => fst we * h (snd we))))).
      { intros h. rewrite <- mean_plus. apply mean_ext. intros x. rewrite <- mean_scale_r, <- mean_plus.
        apply mean_ext. intros l. cbn [map]. destruct (weights (snd x :: map snd l)) as [| w ws].
        - simpl. rewrite !sum_nil. reals. ring.
        - cbn [combine hd tl]. rewrite sum_cons. reflexivity. }
      rewrite !split. f_equal.
      + apply (Hg e (or_introl eq_refl) (fun j => mean (independent es) (fun l => hd 0 (weights (j :: map snd l))))).
      + apply mean_ext. intros x. apply (IH (fun e' H => Hg e' (or_intror H)) (fun js => tl (weights (snd x :: js)))).
  Qed.

  Lemma mean_race_given_the_scores (es : list (law R (A * nat))) (f : A -> R) (g' : A * nat -> R) : es <> [] ->
    (forall e, In e es -> forall a, mean e (fun x => a (snd x) * f (fst x)) = mean e (fun x => a (snd x) * g' x)) ->
    mean (bind (independent es) (race select)) f
    = mean (independent es) (fun l =>
        sum (combine (shares (select (map snd l))) l) (fun we => fst we * g' (snd we))).
  Proof.
    intros Hne Hf. rewrite mean_bind.
    rewrite <- (given_the_scores (fun x => f (fst x)) g' es Hf (fun js => shares (select js))).
    apply mean_independent_ext. intros l Hl. apply mean_race. intros ->. destruct es; [now apply Hne | discriminate].
  Qed.

  (** If the mean of [f] is [m] whatever the score, it is [m] for the winner. *)
  Lemma mean_race_constant (es : list (law R (A * nat))) (f : A -> R) (m : R) : es <> [] ->
    (forall e, In e es -> mean e (fun _ => 1) = 1 /\
      forall a, mean e (fun x => a (snd x) * f (fst x)) = mean e (fun x => a (snd x)) * m) ->
    mean (bind (independent es) (race select)) f = m.
  Proof.
    intros Hne He. rewrite (mean_race_given_the_scores es f (fun _ => m) Hne).
    2:{ intros e H a. now rewrite (proj2 (He e H)), mean_scale_r. }
    rewrite (mean_independent_ext _ _ (fun _ => m)).
    - apply mean_constant, independent_total. intros e H. now apply He.
    - intros l Hl. rewrite sum_scale_r, shares_total; [ring |].
      intros ->. destruct es; [now apply Hne | discriminate].
  Qed.
End Race.

(** ** The theorem *)

(** In the law [e] of pairs the text has the law [d], and the score is independent of it. *)
Definition independent_score {A} (e : law R (A * nat)) (d : law R A) : Prop :=
  forall (f : A -> R) (a : nat -> R),
    mean e (fun x => f (fst x) * a (snd x)) = mean d f * mean e (fun x => a (snd x)).

Theorem race_keeps_the_law {A} (select : list nat -> list R) (es : list (law R (A * nat))) (d : law R A) :
  is_selection select -> es <> [] ->
  (forall e, In e es -> mean e (fun _ => 1) = 1 /\ independent_score e d) ->
  forall f, mean (bind (independent es) (race select)) f = mean d f.
Proof.
  intros Hselect Hne He f. apply mean_race_constant; auto. intros e H. destruct (He e H) as [Ht Hind].
  split; [exact Ht |]. intros a. rewrite Rmult_comm, <- Hind. apply mean_ext. intros. ring.
Qed.

(** ** The two ways to settle ties *)

Lemma smallest_exists (scores : list nat) : scores <> [] -> exists j, In j scores /\ forallb (Nat.leb j) scores = true.
Proof.
  induction scores as [| j scores IH]; [easy |]. intros _. destruct scores as [| i scores].
  - exists j. split; [now left |]. simpl. now rewrite Nat.leb_refl.
  - destruct IH as (m & Hm & Hall); [easy |]. rewrite forallb_forall in Hall.
    destruct (Nat.le_gt_cases j m) as [H | H].
    + exists j. split; [now left |]. apply forallb_forall. intros x [<- | Hx]; apply Nat.leb_le; [lia |].
      apply Hall, Nat.leb_le in Hx. lia.
    + exists m. split; [now right |]. apply forallb_forall. intros x [<- | Hx]; [apply Nat.leb_le; lia | auto].
Qed.

Lemma in_combine_map {A B} (h : A -> B) (l : list A) w a : In (w, a) (combine (map h l) l) -> w = h a.
Proof.
  induction l as [| b l IH]; simpl; [easy |]. intros [E | H]; [now inversion E | auto].
Qed.

Theorem fair_smallest_is_a_race : is_selection fair_smallest /\ picks_smallest fair_smallest.
Proof.
  unfold fair_smallest. split.
  - intros scores H. rewrite map_length. split; [reflexivity |].
    assert (Hw : forall j, 0 <= (if forallb (Nat.leb j) scores then one else zero)).
    { intros j. destruct (forallb _ _); reals; lra. }
    split.
    + intros w Hin. apply in_map_iff in Hin as (j & <- & _). apply Hw.
    + rewrite sum_map. destruct (smallest_exists scores H) as (j & Hj & Hall).
      pose proof (sum_member scores (fun j => if forallb (Nat.leb j) scores then one else zero) j
        (fun b _ => Hw b) Hj) as Hs. cbv beta in Hs. rewrite Hall in Hs. reals. lra.
  - intros scores w j Hin Hw i Hi. apply in_combine_map in Hin. subst w.
    destruct (forallb (Nat.leb j) scores) eqn:E; [| reals; lra].
    rewrite forallb_forall in E. now apply Nat.leb_le, E.
Qed.

Theorem first_smallest_is_a_race : is_selection first_smallest /\ picks_smallest first_smallest.
Proof.
  split.
  - intros scores H. induction scores as [| j scores IH]; [easy |]. clear H. cbn [first_smallest].
    destruct (forallb (Nat.leb j) scores) eqn:E.
    + simpl. rewrite map_length. split; [reflexivity |]. split.
      * intros w [<- | Hin]; [reals; lra |]. apply in_map_iff in Hin as (? & <- & _). reals. lra.
      * rewrite sum_cons, sum_map, sum_zero. reals. lra.
    + destruct scores as [| i scores]; [discriminate |].
      destruct IH as (Hl & Hpos & Hsum); [easy |]. split; [simpl in *; now rewrite Hl |]. split.
      * intros w [<- | Hin]; [reals; lra | auto].
      * rewrite sum_cons. reals. lra.
  - intros scores. induction scores as [| j scores IH]; intros w i Hin Hw k Hk; [easy |].
    cbn [first_smallest] in Hin. destruct (forallb (Nat.leb j) scores) eqn:E.
    + cbn [combine In] in Hin. destruct Hin as [Hin | Hin].
      * inversion Hin; subst. destruct Hk as [<- | Hk]; [lia |].
        rewrite forallb_forall in E. now apply Nat.leb_le, E.
      * apply in_combine_map in Hin. reals. lra.
    + cbn [combine In] in Hin. destruct Hin as [Hin | Hin]; [inversion Hin; subst; reals; lra |].
      pose proof (IH w i Hin Hw) as Hle. destruct Hk as [<- | Hk]; [| auto].
      (* some score is below [j], and [i] is at most that *)
      assert (exists m, In m scores /\ (m < j)%nat) as (m & Hm & Hmj).
      { clear - E. induction scores as [| m scores IH]; [discriminate |]. simpl in E.
        destruct (Nat.leb j m) eqn:Ejm; [destruct (IH E) as (x & ? & ?); exists x; simpl; auto |].
        apply Nat.leb_gt in Ejm. exists m. simpl. auto. }
      specialize (Hle m Hm). lia.
Qed.

(** In the plainest form: independent pairs of a text and an independent score, one pair for each law of scores in
    [ss]; the smallest score wins, ties to the lowest index. *)
Theorem race_of_independent_pairs {A} (d : law R A) (ss : list (law R nat)) :
  ss <> [] -> mean d (fun _ => 1) = 1 -> (forall s, In s ss -> mean s (fun _ => 1) = 1) ->
  let pair s := a <- d;; j <- s;; ret (a, j) in
  forall f, mean (bind (independent (map pair ss)) (race first_smallest)) f = mean d f.
Proof.
  intros Hne Hd Hs pair.
  assert (Hpair : forall s (h : A * nat -> R), mean (pair s) h = mean d (fun a => mean s (fun j => h (a, j)))).
  { intros s h. unfold pair. rewrite mean_bind. apply mean_ext. intros a. rewrite mean_bind.
    apply mean_ext. intros j. apply mean_ret. }
  apply race_keeps_the_law; [apply first_smallest_is_a_race | now destruct ss |].
  intros e He. apply in_map_iff in He as (s & <- & H). split.
  - rewrite Hpair, (mean_ext _ _ (fun _ => 1)); auto.
  - intros f a. rewrite !Hpair. cbn [fst snd]. rewrite (mean_constant d _ Hd), <- mean_scale_r.
    apply mean_ext. intros x. now rewrite mean_scale.
Qed.
